//! Embeds `scenarios/**/*.toml` and the data files beside them: the binary runs without the repository.
#![allow(clippy::disallowed_methods, reason = "directory order is undone by sorting")]
#![allow(clippy::disallowed_macros, reason = "println is how a build script speaks to cargo")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|e| e == "toml" || e == "jsonl") {
            files.push(path);
        }
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.join("..").join("scenarios");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut out = String::from("pub static EMBEDDED: &[(&str, &str)] = &[\n");
    for file in files {
        let name = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        let _ = writeln!(out, "    ({name:?}, include_str!({:?})),", file.canonicalize()?);
        println!("cargo::rerun-if-changed={}", file.display());
    }
    out.push_str("];\n");
    fs::write(PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("embedded.rs"), out)
}
