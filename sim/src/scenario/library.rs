//! Where scenarios come from: embedded in the binary by name, or read from disk by path.

use std::path::{Path, PathBuf};

mod embedded {
    //! Made by the build script.
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}
use embedded::EMBEDDED;

/// Largest scenario file, in bytes.
pub const LARGEST: u64 = 4 << 20;

/// A scenario's text as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name: the path below `scenarios/` without extension.
    pub name: String,
    /// What to call the text in error messages.
    pub source: String,
    /// Its bytes; not yet known to be UTF-8.
    pub bytes: Vec<u8>,
    /// Directory that paths in it are relative to.
    pub base: PathBuf,
}

/// Names of all embedded scenarios, in order.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    EMBEDDED.iter().filter_map(|(name, _)| name.strip_suffix(".toml"))
}
/// The text of an embedded data file, by its path below `scenarios/`.
pub fn data(path: &Path) -> Option<&'static str> {
    let path = path.strip_prefix("scenarios").ok()?.to_str()?;
    EMBEDDED.iter().find(|(name, _)| *name == path).map(|(_, text)| *text)
}

/// Finds a scenario by embedded name, or by path if it ends in `.toml`.
///
/// # Errors
/// One sentence that says why there is none.
pub fn find(which: &str, base: &Path) -> Result<Found, String> {
    let source = source_of(which, base);
    if !is_path(which) {
        let file = format!("{which}.toml");
        let text = EMBEDDED.iter().find(|(name, _)| *name == file).map(|(_, text)| *text);
        let text = text.ok_or_else(|| format!("there is no scenario `{which}`"))?;
        let base = Path::new(&source).parent().unwrap_or(Path::new("")).to_path_buf();
        return Ok(Found { name: which.into(), source, bytes: text.into(), base });
    }
    let path = normal(&base.join(which));
    let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let name = name_of(&path);
    // A scenario that extends a neighbour by path finds it among the embedded ones too.
    if let Some(text) = data(&path).filter(|_| !path.exists()) {
        return Ok(Found { name, source, bytes: text.into(), base });
    }
    let fail = |e: std::io::Error| format!("{source}: {e}");
    let meta = std::fs::metadata(&path).map_err(fail)?;
    if !meta.is_file() {
        return Err(format!("{source} is no file"));
    }
    if meta.len() > LARGEST {
        return Err(format!("{source}: larger than {LARGEST} bytes"));
    }
    let bytes = std::fs::read(&path).map_err(fail)?;
    Ok(Found { name, source, bytes, base })
}

fn is_path(which: &str) -> bool {
    Path::new(which).extension().is_some_and(|e| e == "toml")
}
/// What [`find`] would call the text. Two spellings of one file give one name.
pub fn source_of(which: &str, base: &Path) -> String {
    if is_path(which) { normal(&base.join(which)).display().to_string() } else { format!("scenarios/{which}.toml") }
}

/// `a/./b/../c` is `a/c`: two spellings of one file are one file, also where it does not exist.
pub fn normal(path: &Path) -> PathBuf {
    use std::path::Component::{CurDir, Normal, ParentDir};
    path.components().fold(PathBuf::new(), |mut out, part| {
        match part {
            CurDir => {}
            ParentDir if matches!(out.components().next_back(), Some(Normal(_))) => {
                out.pop();
            }
            _ => out.push(part),
        }
        out
    })
}

/// The name of a file: its path below the last `scenarios` directory, or its stem.
fn name_of(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|c| c.as_os_str().to_string_lossy()).collect();
    let from = parts.iter().rposition(|p| p == "scenarios").map_or(parts.len().saturating_sub(1), |at| at + 1);
    let name = parts[from..].join("/");
    name.strip_suffix(".toml").unwrap_or(&name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_paths() {
        assert_eq!(name_of(Path::new("x/scenarios/kafka/steady.toml")), "kafka/steady");
        assert_eq!(name_of(Path::new("mine/try.toml")), "try");
        assert_eq!(normal(Path::new("a/./b/../c")), Path::new("a/c"));
        assert_eq!(normal(Path::new("../a")), Path::new("../a"));
    }

    #[test]
    fn what_is_not_there_is_said() {
        assert!(find("kafka/nowhere", Path::new("")).unwrap_err().contains("no scenario"));
        assert!(find("nowhere.toml", Path::new("")).unwrap_err().contains("nowhere.toml"));
        assert!(names().any(|n| n == "kafka/steady"));
    }
}
