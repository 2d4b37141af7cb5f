//! Copies what is in a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What the size of a file on disk is counted in, in bytes.
const BLOCK: u64 = 512;

/// Copies what is in a file to one that was made for it. Its holes stay holes: a file of terabytes may hold next to nothing.
///
/// # Errors
/// One of them cannot be read or written.
pub fn copy_data(source: &File, copy: &File) -> io::Result<()> {
    let meta = source.metadata()?;
    if meta.blocks().saturating_mul(BLOCK) >= meta.len() {
        return io::copy(&mut &*source, &mut &*copy).map(drop);
    }
    copy.set_len(meta.len())?;
    let mut at = 0;
    while at < meta.len() {
        let data = match seek(source, SeekFrom::Data(at)) {
            Ok(data) => data,
            // Nothing but a hole follows.
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let hole = match seek(source, SeekFrom::Hole(data)) {
            Ok(hole) if hole > data => hole,
            _ => meta.len(),
        };
        for file in [source, copy] {
            seek(file, SeekFrom::Start(data))?;
        }
        io::copy(&mut source.take(hole.saturating_sub(data)), &mut &*copy)?;
        at = hole;
    }
    Ok(())
}
