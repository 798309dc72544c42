//! How Java reads bytes that are no UTF-8: `new String(bytes, UTF_8)` puts U+FFFD in the place of what it cannot read. How many
//! bytes one of them stands for is Java's own (JDK 17, `String.decodeUTF8_UTF16`): a surrogate in three bytes is one, a byte
//! that nothing begins with is one.

/// U+FFFD.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

fn is_continuation(b: Option<&u8>) -> bool {
    b.is_some_and(|b| b & 0xC0 == 0x80)
}

/// One character from the beginning of `bytes`, `None` for what is no character, and how many bytes it takes.
fn next(bytes: &[u8]) -> (Option<char>, usize) {
    let (b1, b2, b3, b4) = (bytes[0], bytes.get(1), bytes.get(2), bytes.get(3));
    let bits = |first: u8, rest: &[Option<&u8>]| {
        rest.iter().fold(u32::from(first), |bits, b| bits << 6 | u32::from(b.copied().unwrap_or(0) & 0x3F))
    };
    match b1 {
        0..=0x7F => (Some(char::from(b1)), 1),
        0xC2..=0xDF if is_continuation(b2) => (char::from_u32(bits(b1 & 0x1F, &[b2])), 2),
        0xE0..=0xEF => {
            let overlong = b1 == 0xE0 && b2.is_some_and(|b| b & 0xE0 == 0x80);
            if overlong || !is_continuation(b2) {
                (None, 1)
            } else if !is_continuation(b3) {
                (None, 2)
            } else {
                // A surrogate is no character, but its three bytes go together.
                (char::from_u32(bits(b1 & 0x0F, &[b2, b3])), 3)
            }
        }
        0xF0..=0xF4 => {
            let range = match b1 {
                0xF0 => 0x90..=0xBF,
                0xF4 => 0x80..=0x8F,
                _ => 0x80..=0xBF,
            };
            if !b2.is_some_and(|b| range.contains(b)) {
                (None, 1)
            } else if !is_continuation(b3) {
                (None, 2)
            } else if !is_continuation(b4) {
                (None, 3)
            } else {
                (char::from_u32(bits(b1 & 0x07, &[b2, b3, b4])), 4)
            }
        }
        _ => (None, 1),
    }
}

/// The text that Java shows.
pub fn java_string(mut bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let (c, n) = next(bytes);
        text.push(c.unwrap_or(REPLACEMENT));
        bytes = &bytes[n.min(bytes.len())..];
    }
    text
}
/// How many U+FFFD Java shows.
pub fn java_replacements(bytes: &[u8]) -> usize {
    java_string(bytes).chars().filter(|c| *c == REPLACEMENT).count()
}
