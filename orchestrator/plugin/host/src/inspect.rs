//! Inspects a library's file without loading it.
//!
//! The dynamic linker trusts the file: a truncated one kills the process, and any library runs its
//! constructors before it can be rejected. So the file's bytes are checked first, as far as possible.

use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, Sym as _};
use object::{LittleEndian, Object as _};
use ralph_orchestrator_plugin_abi::{
    ABI_MAJOR, ABI_MINOR, DECL_SIZE, DECL_SYMBOL, DeclPrefix, MAGIC, MANIFEST_SYMBOL,
};

use crate::library_defect::{LibraryDefect, LibraryDefects};
use crate::manifest::{self, Manifest, escaped};

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

/// Inspects the bytes of a file. None of its code runs.
///
/// # Errors
/// All defects, as far as the file can be read.
pub fn inspect(data: &[u8]) -> Result<LibraryHeader, LibraryDefects> {
    check_format(data)?;
    let file = ElfFile64::<LittleEndian>::parse(data)
        .map_err(|error| LibraryDefect::Corrupt { reason: error.to_string() })?;
    let library = LibraryFile { file, data };
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
fn check_format(data: &[u8]) -> Result<(), LibraryDefect> {
    let Some(rest) = data.strip_prefix(b"\x7fELF") else { return Err(not_elf(data)) };
    let here = std::env::consts::ARCH;
    if rest.first() == Some(&elf::ELFCLASS32.0) {
        return Err(LibraryDefect::Bits32 { here });
    }
    let found = len(data);
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
        elf::ET_DYN => check_complete(header, data),
        elf::ET_EXEC => Err(LibraryDefect::NotShared { what: "a program" }),
        elf::ET_REL => Err(LibraryDefect::NotShared { what: "an object file" }),
        elf::ET_CORE => Err(LibraryDefect::NotShared { what: "a core dump" }),
        _ => Err(LibraryDefect::NotShared { what: "an ELF file of an unknown type" }),
    }
}

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
fn check_complete(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Result<(), LibraryDefect> {
    let endian = LittleEndian;
    let table = |at: u64, count: u16, each: u16| {
        at.saturating_add(u64::from(count).saturating_mul(u64::from(each)))
    };
    let found = len(data);
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

struct LibraryFile<'data> {
    file: ElfFile64<'data, LittleEndian>,
    data: &'data [u8],
}

impl<'data> LibraryFile<'data> {
    /// Finds a data symbol.
    fn symbol(&self, name: &'static str) -> Result<Symbol, LibraryDefect> {
        let table = self.file.elf_dynamic_symbol_table();
        let mut named = table.iter().filter(|symbol| {
            table.symbol_name(LittleEndian, symbol).is_ok_and(|found| found == name.as_bytes())
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
        self.file
            .elf_program_headers()
            .iter()
            .filter(|segment| segment.p_type(LittleEndian) == elf::PT_LOAD)
            .find_map(|segment| {
                let address = symbol.address.checked_add(offset)?;
                segment.data_range(LittleEndian, self.data, address, size).ok().flatten()
            })
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
        self.file
            .dynamic_relocations()
            .is_some_and(|mut relocations| relocations.any(|(at, _)| at == address))
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
