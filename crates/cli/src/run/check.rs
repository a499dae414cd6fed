//! Whether a program can be carried. ld.so brings the library into a program, so there must be the
//! right one, and it must be willing; static programs have a loader of our own.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::process::{getgid, getuid};

use super::elf::{self, Elf, Image};
use super::find::Found;
use super::static_program;

/// Why a program stays with the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    /// For `gannet explain`.
    pub(super) code: &'static str,
    pub(super) why: String,
    pub(super) hint: &'static str,
    /// The library does no harm: programs that it starts may be carried.
    pub(super) preload: bool,
}

fn verdict(code: &'static str, why: impl Into<String>, hint: &'static str) -> Verdict {
    Verdict {
        code,
        why: why.into(),
        hint,
        preload: true,
    }
}

/// Why `found` stays with the kernel, if it does. `library` is what is loaded into programs.
pub(super) fn check(found: &Found, library: Option<&Path>) -> Option<Verdict> {
    let ours = match elf::read(Path::new("/proc/self/exe")) {
        Ok(Image::Elf(elf)) => Some(elf),
        _ => None,
    };
    let mut images = found.images.iter();
    images.find_map(|(path, image)| judge(path, image, ours.as_ref(), library))
}

fn judge(
    path: &Path,
    image: &io::Result<Image>,
    ours: Option<&Elf>,
    library: Option<&Path>,
) -> Option<Verdict> {
    let elf = match image {
        Ok(Image::Elf(elf)) => elf,
        // what the kernel makes of it shows when it starts
        Ok(Image::Other | Image::Script(..)) => return None,
        Ok(Image::Malformed(why)) => {
            let hint = "file CMD, and a fresh copy";
            return Some(verdict("malformed-program", why, hint));
        }
        Err(error) => {
            let why = format!("{} cannot be read: {error}", path.display());
            return Some(verdict(
                "unreadable-program",
                why,
                "chmod +r, or a copy of it",
            ));
        }
    };
    let loaded = ours.and_then(|ours| alien(elf, ours));
    let loaded = loaded.or_else(|| unloaded(path, elf, library));
    loaded.or_else(|| secure(path).ok().flatten())
}

/// A program for another processor.
fn alien(elf: &Elf, ours: &Elf) -> Option<Verdict> {
    let found = match elf {
        Elf { wide, .. } if *wide != ours.wide => {
            let bits = if elf.wide { 64 } else { 32 };
            let why = format!("it is a program of {bits} bits, and the library is not");
            verdict(
                "other-word-size",
                why,
                "its package for this machine's own architecture",
            )
        }
        Elf { machine, .. } if *machine != ours.machine => verdict(
            "other-machine",
            format!("it is for another processor (ELF machine {machine})"),
            "its package for this machine's architecture",
        ),
        _ => return None,
    };
    Some(Verdict {
        preload: false,
        ..found
    })
}

/// A program into which glibc's loader does not bring the library.
fn unloaded(path: &Path, elf: &Elf, library: Option<&Path>) -> Option<Verdict> {
    let Some(loader) = &elf.interpreter else {
        let obstacle = is_static(path, elf).then(|| static_program::obstacle(path, library));
        return obstacle
            .flatten()
            .map(|(why, hint)| verdict("static-program", why, hint));
    };
    (!is_glibc(loader)).then(|| Verdict {
        preload: false,
        ..verdict(
            "other-libc",
            format!("{} loads it, which is not glibc's loader", loader.display()),
            "the same program built for glibc",
        )
    })
}

/// Whether a program is static. ld.so started by name is, too, and loads what we ask for.
pub(super) fn is_static(path: &Path, elf: &Elf) -> bool {
    elf.interpreter.is_none() && !is_glibc(path)
}

/// Whether a loader is glibc's, by its name: ld-linux-x86-64.so.2, ld-linux.so.2, ld64.so.1.
fn is_glibc(loader: &Path) -> bool {
    let name = loader.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("ld-linux") || name.starts_with("ld64.so") || name.starts_with("ld-2.")
}

/// A program that the kernel starts in secure-execution mode, in which the loader ignores
/// LD_PRELOAD (ld.so(8)).
fn secure(path: &Path) -> io::Result<Option<Verdict>> {
    let data = fs::metadata(path)?;
    let (mode, uid, gid) = (data.mode(), data.uid(), data.gid());
    if rustix::thread::no_new_privs().unwrap_or(false) {
        return Ok(None);
    }
    let mount = statvfs(path).map(|mount| mount.f_flag);
    if mount.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOSUID)) {
        return Ok(None);
    }
    let user = mode & 0o4000 != 0 && uid != getuid().as_raw();
    let group = mode & 0o2010 == 0o2010 && gid != getgid().as_raw();
    if user || group {
        let who = if user { "user" } else { "group" };
        let why = format!("it runs as another {who} (mode {:o})", mode & 0o7777);
        let hint = "gannet run as that user, on a copy of the program without the bit";
        return Ok(Some(verdict("setuid-program", why, hint)));
    }
    let mut capabilities = [0; 64];
    let has = getxattr(path, c"security.capability", &mut capabilities[..]).is_ok();
    // root has them all: nothing is gained
    Ok((has && !getuid().is_root()).then(|| {
        let why = "its file has capabilities (getcap), and the loader is careful with it";
        verdict(
            "file-capabilities",
            why,
            "a copy of the program, which has none",
        )
    }))
}

#[cfg(test)]
mod tests;
