//! Which files look like secrets, by name and by the head of well-known keys.

use std::io::{self, Read as _};
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::files::WorkspaceFiles;
use crate::path::RepoPath;

/// How much of a file is searched for keys, in bytes.
const MAX_SEARCHED: u64 = 1024 * 1024;

/// Endings that mark a template or the public half: nothing secret is meant to be in them.
const HARMLESS_ENDINGS: [&str; 6] = [".pub", ".example", ".sample", ".template", ".dist", ".md"];

const SECRET_ENDINGS: [&str; 11] = [
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".p8",
    ".asc.key",
    ".ovpn",
];

const SECRET_NAMES: [&str; 12] = [
    ".netrc",
    "_netrc",
    ".pgpass",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "secrets.toml",
    "service-account.json",
];

const SECRET_BEGINNINGS: [&str; 6] =
    [".env", "credentials", ".credentials", "id_rsa", "id_ed25519", "id_ecdsa"];

/// The patterns cannot fail to compile: a test compiles them.
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----",
        r"|PuTTY-User-Key-File-[0-9]",
        r"|AGE-SECRET-KEY-1[A-Z0-9]{20}",
        r"|\bAKIA[A-Z0-9]{16}\b",
        r"|\bgh[pousr]_[A-Za-z0-9]{36}",
        r"|\bgithub_pat_[A-Za-z0-9_]{40}",
        r"|\bsk-(?:ant|proj|svcacct|admin)-[A-Za-z0-9_-]{20}",
        r"|\bsk-[A-Za-z0-9]{40}",
        r"|\bxox[abprs]-[A-Za-z0-9-]{20}",
    ))
    .ok()
});

/// Returns whether a file's name is one of those under which secrets are stored.
pub(crate) fn has_secret_name(path: &RepoPath) -> bool {
    let name = String::from_utf8_lossy(path.file_name()).to_ascii_lowercase();
    if HARMLESS_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
        return false;
    }
    let is_bare_identity = name.starts_with("id_") && !name.contains('.');
    // `.envrc` and `.env.local`, but also `.environment`: rather one too many.
    is_bare_identity
        || SECRET_NAMES.contains(&name.as_str())
        || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
        || SECRET_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || name.ends_with(".env")
}

/// Returns whether a key's head is in the first MiB of a file.
pub(crate) fn has_secret_content(files: &WorkspaceFiles, path: &RepoPath) -> io::Result<bool> {
    let mut head = Vec::new();
    files.open_regular(path)?.take(MAX_SEARCHED).read_to_end(&mut head)?;
    Ok(contains_key(&head))
}

/// Returns whether bytes have the head of a well-known key.
pub(crate) fn contains_key(bytes: &[u8]) -> bool {
    // Without the patterns every file is treated as a secret.
    KEYS.as_ref().is_none_or(|keys| keys.is_match(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_names_of_secrets_and_leaves_others_alone() {
        for name in [
            ".env",
            "a/.env.local",
            ".envrc",
            "prod.env",
            "x/y/server.PEM",
            "tls.key",
            "id_rsa",
            "id_custom",
            "ID_ED25519.bak",
            "credentials",
            "credentials.json",
            ".aws/credentials",
            ".netrc",
            "store.jks",
        ] {
            assert!(has_secret_name(&RepoPath::from_bytes(name)), "{name}");
        }
        for name in [
            ".env.example",
            "id_rsa.pub",
            "id_generator.py",
            "key.rs",
            "keyboard",
            "env.rs",
            "notes/credentials.md",
            "monkey",
            "src/environment.rs",
        ] {
            assert!(!has_secret_name(&RepoPath::from_bytes(name)), "{name}");
        }
    }

    #[test]
    fn recognises_heads_of_keys() {
        assert!(KEYS.is_some());
        for text in [
            &b"x\n-----BEGIN OPENSSH PRIVATE KEY-----\n"[..],
            b"-----BEGIN PRIVATE KEY-----",
            b"-----BEGIN PGP PRIVATE KEY BLOCK-----",
            b"\xff\xfe aws=AKIAABCDEFGHIJKLMNOP ",
            b"token: ghp_0123456789abcdefghijABCDEFGHIJ012345",
            b"sk-proj-0123456789_abcdefghij-ABC",
            b"sk-0123456789abcdefghijABCDEFGHIJ0123456789ABCD",
        ] {
            assert!(contains_key(text), "{}", String::from_utf8_lossy(text));
        }
        for text in
            [&b""[..], b"-----BEGIN PUBLIC KEY-----", b"-----BEGIN CERTIFICATE-----", b"AKIA"]
        {
            assert!(!contains_key(text), "{}", String::from_utf8_lossy(text));
        }
    }
}
