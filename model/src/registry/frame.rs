//! The Confluent wire format: a zero byte, the schema's id in four bytes, the body.

/// A message that names its schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Id of the schema at the registry.
    pub schema: u32,
    /// What is encoded with it.
    pub body: &'a [u8],
}

/// Why there is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer than five bytes.
    #[error("too few bytes for a frame")]
    Short,
    /// The first byte is neither that of an id nor that of a GUID.
    #[error("another first byte than a frame's")]
    Magic,
    /// The first byte announces the schema's GUID (newer serializers): to be looked up as such.
    #[error("the schema is named by a GUID")]
    Guid,
}

/// Takes a message apart.
pub fn unframe(message: &[u8]) -> Result<Frame<'_>, FrameError> {
    match message {
        [0, a, b, c, d, body @ ..] => Ok(Frame { schema: u32::from_be_bytes([*a, *b, *c, *d]), body }),
        [_, _, _, _, _, ..] => Err(if message[0] == 1 { FrameError::Guid } else { FrameError::Magic }),
        _ => Err(FrameError::Short),
    }
}
/// Puts a message together.
pub fn frame(schema: u32, body: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(5 + body.len());
    message.push(0);
    message.extend(schema.to_be_bytes());
    message.extend(body);
    message
}
