//! Static programs: `gannet-loader` is executed in their place, which begins with the library and
//! loads them (crate `preload`, `loader/`).

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use gannet_image::{HEAD, Image, Refusal};
use rustix::fs::{Access, access};

use super::check::is_static;
use super::elf;
use super::find::Found;

/// The loader's file, beside the library.
const LOADER: &str = "gannet-loader";
/// The variable by which it finds the program.
pub(super) const VARIABLE: &str = "GANNET_LOAD";

/// Why the static program `path` is not loaded beside `library`, and what to try.
pub(super) fn obstacle(path: &Path, library: Option<&Path>) -> Option<(String, &'static str)> {
    const FSGSBASE: usize = 2;
    let Some(loader) = library.map(beside) else {
        return Some((
            "there is no library to load".into(),
            "cargo build --release",
        ));
    };
    if access(&loader, Access::EXEC_OK).is_err() {
        let why = format!(
            "it is linked statically, and {} is missing",
            loader.display()
        );
        return Some((
            why,
            "the whole of gannet: the loader lies beside the library",
        ));
    }
    if std::env::var_os("GANNET_INTERCEPT").is_some_and(|how| how == "symbols") {
        let why = "it is linked statically, and GANNET_INTERCEPT=symbols takes over only what \
            calls the C library by name";
        return Some((why.into(), "unset GANNET_INTERCEPT"));
    }
    if rustix::param::linux_hwcap().1 & FSGSBASE == 0 {
        let why = "it is linked statically, and this kernel does not let programs change the FS \
            register";
        return Some((why.into(), "Linux 5.9 or later"));
    }
    if !std::arch::is_x86_feature_detected!("xsavec") {
        let why = "it is linked statically, and this processor has no XSAVEC, without which system \
            calls cannot be taken over";
        return Some((why.into(), "a processor of 2015 or later"));
    }
    let refusal = parse(path).err()?;
    let why = format!("it is linked statically, and cannot be loaded: {refusal}");
    Some((why, "file CMD, and a fresh copy"))
}

fn parse(path: &Path) -> Result<Image, Refusal> {
    let read = || {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut head = Vec::new();
        file.take(HEAD as u64).read_to_end(&mut head)?;
        Ok::<_, std::io::Error>((head, size))
    };
    let unreadable = Refusal::Malformed("it cannot be read");
    let (head, size) = read().map_err(|_| unreadable)?;
    Image::parse(&head, size)
}

fn beside(library: &Path) -> PathBuf {
    library.with_file_name(LOADER)
}

/// What is executed in place of `found`, if that, or what runs it as a script, is static.
pub(super) fn loader(found: &Found, library: &Path) -> Option<PathBuf> {
    let (path, image) = found.images.first()?;
    match image {
        Ok(elf::Image::Elf(elf)) if is_static(path, elf) => Some(beside(library)),
        _ => None,
    }
}
