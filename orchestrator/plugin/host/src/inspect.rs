//! Inspects a library's file without loading it.
//!
//! The dynamic linker trusts the file: a truncated one kills the process, and any library runs its
//! constructors before it can be rejected. So the file's bytes are checked first, as far as possible.

use std::cell::Cell;
use std::io::{Read, Seek};
use std::ops::Range;

use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{
    FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable,
};
use object::{LittleEndian, ReadCache, ReadRef};
use ralph_orchestrator_plugin_abi::{
    ABI_MAJOR, ABI_MINOR, DECL_SIZE, DECL_SYMBOL, DeclPrefix, MAGIC, MANIFEST_SYMBOL,
};

use crate::library_defect::{LibraryDefect, LibraryDefects};
use crate::manifest::{self, Manifest, escaped};

/// The bytes at the beginning of a file that say what it is.
const HEAD_SIZE: u64 = 64;
/// The size of the fixed part of the declaration.
const PREFIX_SIZE: u64 = 16;
/// The offsets of the functions in the declaration.
const FUNCTION_OFFSETS: [(&str, u64); 3] = [("open", 32), ("send", 40), ("close", 48)];
/// The largest size of a manifest, in bytes.
const MAX_MANIFEST: u64 = 1024 * 1024;

/// The declaration and manifest in the file of a valid library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryHeader {
    /// The fixed part of its declaration.
    pub prefix: DeclPrefix,
    /// Its manifest.
    pub manifest: Manifest,
}

/// The bytes that the inspection of a file may read: headers, symbols, their names and the manifest.
const MAX_READ: u64 = 32 * 1024 * 1024;
/// What the cache of a piece takes beside the piece.
const PIECE_OVERHEAD: u64 = 64;

/// Inspects a file. None of its code runs, and only what is needed of it is read, whatever its size.
///
/// # Errors
/// All defects, as far as the file can be read.
pub fn inspect(file: impl Read + Seek) -> Result<LibraryHeader, LibraryDefects> {
    let cache = ReadCache::new(file);
    let left = Cell::new(MAX_READ);
    let found = inspect_content(BoundedContent { content: &cache, left: &left });
    match found {
        Err(_) if left.get() == 0 => Err(LibraryDefect::TablesTooLarge { most: MAX_READ }.into()),
        found => found,
    }
}

/// Reads pieces of a file, up to [`MAX_READ`] bytes in all.
#[derive(Clone, Copy)]
struct BoundedContent<'data, R> {
    content: R,
    left: &'data Cell<u64>,
}

impl<R> BoundedContent<'_, R> {
    fn charge(self, size: u64) -> Result<(), ()> {
        let left = self.left.get().checked_sub(size.saturating_add(PIECE_OVERHEAD));
        self.left.set(left.unwrap_or(0));
        left.map(drop).ok_or(())
    }
}

impl<'data, R: ReadRef<'data>> ReadRef<'data> for BoundedContent<'data, R> {
    fn len(self) -> Result<u64, ()> {
        self.content.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'data [u8], ()> {
        // What lies outside of the file is no large table, but a wrong one.
        if offset.checked_add(size).is_none_or(|end| self.len().is_ok_and(|len| end > len)) {
            return Err(());
        }
        self.charge(size)?;
        self.content.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'data [u8], ()> {
        let bytes = self.content.read_bytes_at_until(range, delimiter)?;
        self.charge(len(bytes))?;
        Ok(bytes)
    }
}

fn inspect_content<'data>(data: impl ReadRef<'data>) -> Result<LibraryHeader, LibraryDefects> {
    check_format(data)?;
    let library = LibraryFile::parse(data)
        .map_err(|error| LibraryDefect::Corrupt { reason: error.to_string() })?;
    let decl = library.symbol(DECL_SYMBOL)?;
    let prefix = library.prefix(&decl)?;
    if prefix.abi_major != ABI_MAJOR {
        // The rest of the declaration may have another layout.
        return Err(LibraryDefect::OtherAbiVersion {
            found: prefix.abi_major,
            built_with: library.built_with(),
        }
        .into());
    }
    let mut defects = Vec::new();
    library.functions(&decl, &prefix, &mut defects);
    let manifest = match library.manifest() {
        Ok(text) => manifest::parse(text, prefix.abi_minor > ABI_MINOR, &mut defects),
        Err(defect) => {
            defects.push(defect);
            None
        }
    };
    match (LibraryDefects::new(defects), manifest) {
        (None, Some(manifest)) => Ok(LibraryHeader { prefix, manifest }),
        (Some(defects), _) => Err(defects),
        (None, None) => Err(LibraryDefect::ProvidesNothing.into()),
    }
}

/// Checks that it is a complete shared library for this processor.
fn check_format<'data>(data: impl ReadRef<'data>) -> Result<(), LibraryDefect> {
    let found = data.len().map_err(|()| unreadable())?;
    let head = data.read_bytes_at(0, found.min(HEAD_SIZE)).map_err(|()| unreadable())?;
    let Some(rest) = head.strip_prefix(b"\x7fELF") else { return Err(not_elf(head)) };
    let here = std::env::consts::ARCH;
    if rest.first() == Some(&elf::ELFCLASS32.0) {
        return Err(LibraryDefect::Bits32 { here });
    }
    let header = FileHeader64::<LittleEndian>::parse(data);
    let smallest = len_of::<FileHeader64<LittleEndian>>();
    if found < smallest {
        return Err(LibraryDefect::Truncated { expected: smallest, found });
    }
    let header = header.map_err(|error| LibraryDefect::Corrupt { reason: error.to_string() })?;
    let endian = header
        .endian()
        .map_err(|_| LibraryDefect::Processor { found: "another byte order".to_owned(), here })?;
    let machine = header.e_machine(endian).0;
    if arch_name(machine) != Some(here) {
        let found =
            arch_name(machine).map_or_else(|| format!("machine number {machine}"), str::to_owned);
        return Err(LibraryDefect::Processor { found, here });
    }
    match header.e_type(endian) {
        elf::ET_DYN => check_complete(header, data, found),
        elf::ET_EXEC => Err(LibraryDefect::NotShared { what: "a program" }),
        elf::ET_REL => Err(LibraryDefect::NotShared { what: "an object file" }),
        elf::ET_CORE => Err(LibraryDefect::NotShared { what: "a core dump" }),
        _ => Err(LibraryDefect::NotShared { what: "an ELF file of an unknown type" }),
    }
}

fn unreadable() -> LibraryDefect {
    LibraryDefect::Corrupt { reason: "it cannot be read".to_owned() }
}

/// Says what a file is by its first bytes.
fn not_elf(data: &[u8]) -> LibraryDefect {
    const FOREIGN: [(&[u8], &str); 8] = [
        (b"MZ", "for Windows"),
        (b"\xcf\xfa\xed\xfe", "for macOS"),
        (b"\xce\xfa\xed\xfe", "for macOS"),
        (b"\xfe\xed\xfa\xcf", "for macOS"),
        (b"\xfe\xed\xfa\xce", "for macOS"),
        (b"\xca\xfe\xba\xbe", "for macOS (or Java)"),
        (b"\0asm", "WebAssembly"),
        (b"BC\xc0\xde", "LLVM bitcode"),
    ];
    if data.is_empty() {
        return LibraryDefect::Empty;
    }
    if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") {
        return LibraryDefect::Archive;
    }
    match FOREIGN.iter().find(|(magic, _)| data.starts_with(magic)) {
        Some((_, what)) => LibraryDefect::ForeignFormat { what },
        None => LibraryDefect::NotAnObject { beginning: beginning(data, 24) },
    }
}

/// Returns the standard library's name of an architecture.
const fn arch_name(machine: u16) -> Option<&'static str> {
    Some(match elf::Machine(machine) {
        elf::EM_X86_64 => "x86_64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_RISCV => "riscv64",
        elf::EM_386 => "x86",
        elf::EM_ARM => "arm",
        elf::EM_PPC64 => "powerpc64",
        elf::EM_S390 => "s390x",
        elf::EM_LOONGARCH => "loongarch64",
        _ => return None,
    })
}

/// Checks that the file is not truncated: such a file can be mapped, but accessing the missing part kills
/// the process.
fn check_complete<'data>(
    header: &FileHeader64<LittleEndian>,
    data: impl ReadRef<'data>,
    found: u64,
) -> Result<(), LibraryDefect> {
    let endian = LittleEndian;
    let table = |at: u64, count: u16, each: u16| {
        at.saturating_add(u64::from(count).saturating_mul(u64::from(each)))
    };
    let tables = table(header.e_phoff.get(endian), header.e_phnum.get(endian), 56).max(table(
        header.e_shoff.get(endian),
        header.e_shnum.get(endian),
        64,
    ));
    let segments = header.program_headers(endian, data).unwrap_or_default();
    let expected = segments
        .iter()
        .map(|segment| segment.p_offset(endian).saturating_add(segment.p_filesz(endian)))
        .fold(tables, u64::max);
    if expected > found {
        return Err(LibraryDefect::Truncated { expected, found });
    }
    let has = |kind| segments.iter().any(|segment| segment.p_type(endian) == kind);
    if !has(elf::PT_DYNAMIC) || !has(elf::PT_LOAD) {
        return Err(LibraryDefect::NotShared { what: "a file without a dynamic section" });
    }
    if has(elf::PT_INTERP) {
        return Err(LibraryDefect::NotShared { what: "a program" });
    }
    Ok(())
}

/// A symbol in the file.
struct Symbol {
    name: &'static str,
    address: u64,
    size: u64,
}

struct LibraryFile<'data, R: ReadRef<'data>> {
    data: R,
    segments: &'data [ProgramHeader64<LittleEndian>],
    sections: SectionTable<'data, FileHeader64<LittleEndian>, R>,
    symbols: SymbolTable<'data, FileHeader64<LittleEndian>, R>,
}

impl<'data, R: ReadRef<'data>> LibraryFile<'data, R> {
    fn parse(data: R) -> object::Result<Self> {
        let header = FileHeader64::<LittleEndian>::parse(data)?;
        let segments = header.program_headers(LittleEndian, data)?;
        let sections = header.sections(LittleEndian, data)?;
        let symbols = sections.symbols(LittleEndian, data, elf::SHT_DYNSYM)?;
        Ok(Self { data, segments, sections, symbols })
    }

    /// Finds a data symbol.
    fn symbol(&self, name: &'static str) -> Result<Symbol, LibraryDefect> {
        let mut named = self.symbols.iter().filter(|symbol| {
            let found = self.symbols.symbol_name(LittleEndian, symbol);
            found.is_ok_and(|found| found == name.as_bytes())
        });
        let Some(symbol) = named.next() else {
            return Err(LibraryDefect::MissingSymbol { symbol: name });
        };
        if symbol.is_undefined(LittleEndian) {
            return Err(LibraryDefect::ImportedSymbol { symbol: name });
        }
        if matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) {
            return Err(LibraryDefect::SymbolNotData { symbol: name });
        }
        let (address, size) = (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian));
        Ok(Symbol { name, address, size })
    }

    /// Returns the bytes of a symbol, before relocation.
    fn bytes(&self, symbol: &Symbol, offset: u64, size: u64) -> Result<&'data [u8], LibraryDefect> {
        let address = symbol.address.saturating_add(offset);
        let loaded =
            self.segments.iter().filter(|segment| segment.p_type(LittleEndian) == elf::PT_LOAD);
        loaded
            .filter_map(|segment| {
                // Of a segment only this is read: it may be as large as the file.
                let into = address.checked_sub(segment.p_vaddr(LittleEndian))?;
                let rest = segment.p_filesz(LittleEndian).checked_sub(into)?;
                let at = segment.p_offset(LittleEndian).checked_add(into)?;
                if size > rest { None } else { self.data.read_bytes_at(at, size).ok() }
            })
            .next()
            .ok_or(LibraryDefect::SymbolWithoutContent { symbol: symbol.name })
    }

    fn prefix(&self, decl: &Symbol) -> Result<DeclPrefix, LibraryDefect> {
        if decl.size < PREFIX_SIZE {
            let found = decl.size;
            return Err(LibraryDefect::SymbolTooSmall {
                symbol: decl.name,
                found,
                expected: PREFIX_SIZE,
            });
        }
        let bytes = self.bytes(decl, 0, PREFIX_SIZE)?;
        let mut prefix = DeclPrefix { magic: [0; 8], abi_major: 0, abi_minor: 0, size: 0 };
        if let [magic @ .., b8, b9, b10, b11, b12, b13, b14, b15] = bytes
            && let Ok(magic) = magic.try_into()
        {
            prefix = DeclPrefix {
                magic,
                abi_major: u16::from_le_bytes([*b8, *b9]),
                abi_minor: u16::from_le_bytes([*b10, *b11]),
                size: u32::from_le_bytes([*b12, *b13, *b14, *b15]),
            };
        }
        if prefix.magic != MAGIC {
            return Err(LibraryDefect::WrongMagic { found: beginning(&prefix.magic, 8) });
        }
        Ok(prefix)
    }

    fn functions(&self, decl: &Symbol, prefix: &DeclPrefix, defects: &mut Vec<LibraryDefect>) {
        if prefix.size < DECL_SIZE || u64::from(prefix.size) > decl.size {
            defects.push(LibraryDefect::DeclSize { declared: prefix.size, available: decl.size });
            return;
        }
        for (field, offset) in FUNCTION_OFFSETS {
            match self.bytes(decl, offset, 8) {
                // A relocation fills it in when the library is loaded.
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                    if !self.is_relocated(decl.address.saturating_add(offset)) {
                        defects.push(LibraryDefect::NullFunction { field });
                    }
                }
                Ok(_) => {}
                Err(defect) => {
                    defects.push(defect);
                    return;
                }
            }
        }
    }

    fn is_relocated(&self, address: u64) -> bool {
        let of_symbols = |link| link == self.symbols.section();
        self.sections.iter().any(|section| {
            if let Ok(Some((entries, link))) = section.rela(LittleEndian, self.data) {
                return of_symbols(link)
                    && entries.iter().any(|entry| entry.r_offset.get(LittleEndian) == address);
            }
            if let Ok(Some((entries, link))) = section.rel(LittleEndian, self.data) {
                return of_symbols(link)
                    && entries.iter().any(|entry| entry.r_offset.get(LittleEndian) == address);
            }
            false
        })
    }

    /// Returns the manifest's text.
    fn manifest(&self) -> Result<&'data [u8], LibraryDefect> {
        let symbol = self.symbol(MANIFEST_SYMBOL)?;
        let found = symbol.size;
        if found > MAX_MANIFEST {
            let error = format!("it has {found} bytes, at most {MAX_MANIFEST} are allowed");
            return Err(LibraryDefect::InvalidManifest { error });
        }
        if found < 2 {
            return Err(LibraryDefect::SymbolTooSmall { symbol: symbol.name, found, expected: 2 });
        }
        let text = self.bytes(&symbol, 0, symbol.size)?;
        Ok(text.strip_suffix(b"\0").unwrap_or(text))
    }

    /// Returns the SDK named in the manifest of another version, if it can be read; for a message.
    fn built_with(&self) -> String {
        self.manifest()
            .ok()
            .and_then(|text| serde_json::from_slice::<serde_json::Value>(text).ok())
            .and_then(|manifest| Some(escaped(manifest.get("sdk")?.as_str()?)))
            .map_or_else(String::new, |sdk| format!(" ({sdk})"))
    }
}

fn beginning(data: &[u8], length: usize) -> String {
    escaped(&String::from_utf8_lossy(data.get(..length).unwrap_or(data)))
}

fn len(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

fn len_of<T>() -> u64 {
    u64::try_from(size_of::<T>()).unwrap_or(u64::MAX)
}
