//! Who reads, and what each says about bytes that it refuses.

/// A library that decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// Avro for Java 1.11: Confluent's serdes, Flink.
    Java,
    /// avro-python 1.12.
    AvroPython,
    /// fastavro 1.13: confluent-kafka's `AvroDeserializer`.
    FastAvro,
}
impl Library {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Java, Self::AvroPython, Self::FastAvro];
}

/// Why a library refuses bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("the bytes end too early")]
    Eof,
    /// fastavro: they end inside a varint, or an index is out of range.
    #[error("an index is out of range")]
    Index,
    /// A varint is too long.
    #[error("a number is too long")]
    Number,
    /// A length or a count is negative.
    #[error("a length is negative")]
    NegativeLength,
    /// A length or a count is larger than Java's arrays.
    #[error("a length is larger than an array can be")]
    TooLarge,
    /// A union has no such branch.
    #[error("no such branch")]
    Branch,
    /// An enum has no such symbol.
    #[error("no such symbol")]
    Symbol,
    /// Text is no UTF-8.
    #[error("text is no UTF-8")]
    Unicode,
    /// Python has no such date.
    #[error("no such date")]
    Date,
}

impl DecodeError {
    /// The class that the library raises.
    pub const fn class(self, library: Library) -> &'static str {
        match (library, self) {
            (Library::Java, Self::Eof) => "EOFException",
            (Library::Java, Self::Number) => "InvalidNumberEncodingException",
            (Library::Java, Self::NegativeLength) => "AvroRuntimeException",
            (Library::Java, Self::TooLarge) => "UnsupportedOperationException",
            (Library::Java, Self::Branch) => "ArrayIndexOutOfBoundsException",
            (Library::Java, _) => "IndexOutOfBoundsException",
            (_, Self::Unicode) => "UnicodeDecodeError",
            (_, Self::Date) => "OverflowError",
            (Library::AvroPython, Self::Branch | Self::Symbol) => "SchemaResolutionException",
            (Library::AvroPython, _) => "InvalidAvroBinaryEncoding",
            (Library::FastAvro, Self::Index | Self::Branch | Self::Symbol) => "IndexError",
            (Library::FastAvro, _) => "EOFError",
        }
    }
}
