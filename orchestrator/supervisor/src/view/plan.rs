//! What a shim does to make a view: a [`View`] with everything in order, and the sandbox within it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io, slice};

use super::error::{MAX_LAYERS, ViewError};
use super::{Overlay, View};
use crate::root::plan::plain_path;
use crate::root::{Mount, MountAccess};
use crate::sandbox::Sandbox;

/// Everything that is needed to make a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewPlan {
    /// In the order in which they are mounted: what leads to another one comes before it.
    pub(crate) overlays: Vec<Overlay>,
    pub(crate) mounts: Vec<Mount>,
    /// What confines the tree. Its rules hold for the files that they are made from, so they are made within the view.
    pub(crate) sandbox: Option<Sandbox>,
}

impl ViewPlan {
    /// Looks at the host, and puts everything in order.
    pub(crate) fn new(view: &View, sandbox: Option<Sandbox>) -> Result<Self, ViewError> {
        let mut plan =
            Self { overlays: view.overlays.clone(), mounts: view.mounts.clone(), sandbox };
        let mounted = mount_points().map_err(|error| ViewError::Path {
            step: "read /proc/self/mountinfo".to_owned(),
            error,
            advice: "mount /proc",
        })?;
        for overlay in &mut plan.overlays {
            let count = overlay.layers.len();
            if !(1..=MAX_LAYERS).contains(&count) {
                return Err(ViewError::Layers { target: overlay.target.clone(), count });
            }
            let Overlay { target, layers, upper, work } = overlay;
            for path in [target, upper, work].into_iter().chain(layers) {
                *path = checked(path)?;
            }
            overlay.layers.iter().try_for_each(|layer| check_layer(layer, &mounted))?;
        }
        for Mount { source, target, .. } in &mut plan.mounts {
            (*source, *target) = (checked(source)?, checked(target)?);
        }
        // Paths sort by their names, so a folder precedes what is in it. Stable: of two at one place the later covers.
        plan.overlays.sort_by(|a, b| a.target.cmp(&b.target));
        plan.mounts.sort_by(|a, b| a.target.cmp(&b.target));
        Ok(plan)
    }

    /// Returns the words that are sent for it.
    pub(crate) fn encode(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        number(&mut words, self.overlays.len());
        for Overlay { target, layers, upper, work } in &self.overlays {
            words.extend([target, upper, work].map(|path| path.clone().into_os_string()));
            list(&mut words, layers);
        }
        number(&mut words, self.mounts.len());
        for Mount { source, target, access } in &self.mounts {
            let kind = if *access == MountAccess::Writable { "writable" } else { "read" };
            words.extend([kind.into(), source.clone().into(), target.clone().into()]);
        }
        if let Some(sandbox) = &self.sandbox {
            let Sandbox { read, write, keep, hide, private, ports } = sandbox;
            [read, write, keep, hide, private]
                .into_iter()
                .for_each(|paths| list(&mut words, paths));
            words.extend(ports.iter().map(|port| port.to_string().into()));
        }
        words
    }

    /// Returns what [`encode`](Self::encode) made; `None` if it is something else.
    pub(crate) fn decode(words: &[OsString]) -> Option<Self> {
        let mut words = Words(words.iter());
        let overlay = |words: &mut Words<'_>| {
            let [target, upper, work] = [words.path()?, words.path()?, words.path()?];
            Some(Overlay { target, layers: words.list(Words::path)?, upper, work })
        };
        let mount = |words: &mut Words<'_>| {
            let access = match words.word()?.to_str()? {
                "writable" => MountAccess::Writable,
                "read" => MountAccess::ReadOnly,
                _ => return None,
            };
            Some(Mount { source: words.path()?, target: words.path()?, access })
        };
        let (overlays, mounts) = (words.list(overlay)?, words.list(mount)?);
        let sandbox = if words.0.len() == 0 { None } else { Some(words.sandbox()?) };
        Some(Self { overlays, mounts, sandbox })
    }
}

fn number(words: &mut Vec<OsString>, number: usize) {
    words.push(number.to_string().into());
}

fn list(words: &mut Vec<OsString>, paths: &[PathBuf]) {
    number(words, paths.len());
    words.extend(paths.iter().map(|path| path.clone().into_os_string()));
}

/// Words that are read one after the other.
struct Words<'a>(slice::Iter<'a, OsString>);

impl<'a> Words<'a> {
    fn word(&mut self) -> Option<&'a OsStr> {
        self.0.next().map(OsString::as_os_str)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.word().map(PathBuf::from)
    }

    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.word()?.to_str()?.parse::<usize>().ok()?;
        (0..count).map(|_| item(self)).collect()
    }

    fn sandbox(&mut self) -> Option<Sandbox> {
        Some(Sandbox {
            read: self.list(Self::path)?,
            write: self.list(Self::path)?,
            keep: self.list(Self::path)?,
            hide: self.list(Self::path)?,
            private: self.list(Self::path)?,
            ports: self
                .0
                .by_ref()
                .map(|port| port.to_str()?.parse().ok())
                .collect::<Option<_>>()?,
        })
    }
}

/// Returns a path without repeated slashes.
fn checked(path: &Path) -> Result<PathBuf, ViewError> {
    let plain = plain_path(path).filter(|plain| !plain.starts_with("/proc"));
    plain.ok_or_else(|| ViewError::BadPath { path: path.to_owned() })
}

/// The kernel would show the empty folder on which something is mounted, or refuse the overlay.
fn check_layer(layer: &Path, mounted: &[PathBuf]) -> Result<(), ViewError> {
    let Ok(real) = layer.canonicalize() else { return Ok(()) };
    match mounted.iter().find(|point| **point != real && point.starts_with(&real)) {
        Some(mount) => {
            Err(ViewError::MountWithin { layer: layer.to_owned(), mount: mount.clone() })
        }
        None => Ok(()),
    }
}

/// Returns where something is mounted.
fn mount_points() -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(points.map(unescape).collect())
}

/// Returns the path that the kernel wrote with a backslash and three octal digits for each byte that separates.
fn unescape(text: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((first, after)) = rest.split_first() {
        let code = after.first_chunk::<3>().filter(|_| *first == b'\\');
        let code = code.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    use super::*;

    fn overlay(target: &str, layers: &[&str]) -> Overlay {
        Overlay {
            target: target.into(),
            layers: layers.iter().map(PathBuf::from).collect(),
            upper: "/upper".into(),
            work: "/work".into(),
        }
    }

    fn planned(overlays: Vec<Overlay>) -> Result<ViewPlan, ViewError> {
        ViewPlan::new(&View { overlays, mounts: Vec::new() }, None)
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let overlays = ["/h/w", "/h", "/h//w/x/", "/a"].map(|target| overlay(target, &["/l"]));
        let plan = planned(overlays.to_vec()).unwrap();
        let targets: Vec<_> = plan.overlays.iter().map(|overlay| &overlay.target).collect();
        assert_eq!(targets, ["/a", "/h", "/h/w", "/h/w/x"].map(Path::new));
    }

    #[test]
    fn a_path_that_is_not_plain_is_refused() {
        for path in ["", "a", "/", "/a/../b", "/a/./b", "/a\0b", "/proc/self", "/proc"] {
            for overlay in [overlay(path, &["/l"]), overlay("/t", &["/l", path])] {
                let error = planned(vec![overlay]).unwrap_err();
                assert!(matches!(&error, ViewError::BadPath { .. }), "{path}: {error}");
                assert!(!error.is_unsupported());
            }
        }
    }

    #[test]
    fn an_overlay_has_a_bounded_number_of_layers() {
        for (count, good) in [(0, false), (1, true), (MAX_LAYERS, true), (MAX_LAYERS + 1, false)] {
            assert_eq!(planned(vec![overlay("/t", &vec!["/l"; count])]).is_ok(), good, "{count}");
        }
    }

    #[test]
    fn what_is_mounted_beneath_a_layer_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        let name = OsStr::from_bytes(b"a b\\\xff");
        for (point, hidden) in [(real.join(name), true), (real.clone(), false), ("/".into(), false)]
        {
            let found = check_layer(&real, slice::from_ref(&point));
            assert_eq!(found.is_err(), hidden, "{point:?}");
        }
        let escaped = [real.as_os_str().as_bytes(), b"/a\\040b\\134\xff"].concat();
        assert_eq!(unescape(&escaped), real.join(name));
        assert!(mount_points().unwrap().contains(&PathBuf::from("/")));
        let error = planned(vec![overlay("/t", &["/l", "/sys/../"])]).unwrap_err();
        assert!(!error.is_unsupported(), "{error}");
    }

    fn any_path() -> impl Strategy<Value = PathBuf> {
        prop::collection::vec(1_u8.., 0..9).prop_map(|bytes| OsString::from_vec(bytes).into())
    }

    fn any_paths() -> impl Strategy<Value = Vec<PathBuf>> {
        prop::collection::vec(any_path(), 0..3)
    }

    fn any_sandbox() -> impl Strategy<Value = Sandbox> {
        let ports = prop::collection::btree_set(any::<u16>(), 0..3);
        (any_paths(), any_paths(), any_paths(), any_paths(), any_paths(), ports).prop_map(
            |(read, write, keep, hide, private, ports)| Sandbox {
                read,
                write,
                keep,
                hide,
                private,
                ports,
            },
        )
    }

    proptest! {
        #[test]
        fn a_plan_survives_its_way(
            overlays in prop::collection::vec((any_path(), any_paths(), any_path(), any_path()), 0..3),
            mounts in prop::collection::vec((any_path(), any_path(), any::<bool>()), 0..3),
            sandbox in prop::option::of(any_sandbox()),
        ) {
            let overlays = overlays
                .into_iter()
                .map(|(target, layers, upper, work)| Overlay { target, layers, upper, work });
            let access = |writable| if writable { MountAccess::Writable } else { MountAccess::ReadOnly };
            let mounts = mounts
                .into_iter()
                .map(|(source, target, writable)| Mount { source, target, access: access(writable) });
            let plan =
                ViewPlan { overlays: overlays.collect(), mounts: mounts.collect(), sandbox };
            prop_assert_eq!(ViewPlan::decode(&plan.encode()), Some(plan));
        }
    }
}
