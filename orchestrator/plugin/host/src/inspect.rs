//! Reads out of a library's file what it is, without loading it.
//!
//! The dynamic linker trusts the file: one that is cut off kills the process, one of another kind runs
//! its constructors before anybody can say that it is no plugin. So everything that can be said from
//! the bytes is said here, first.

use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, Sym as _};
use object::{LittleEndian, Object as _};
use plugin_abi::{
    ABI_MAJOR, ABI_MINOR, DECL_SIZE, DECL_SYMBOL, DeclPrefix, MAGIC, MANIFEST_SYMBOL,
};

use crate::flaw::{Flaw, Flaws};
use crate::manifest::{self, Manifest, escaped};

/// Size of the frozen part of the declaration.
const PREFIX_SIZE: u64 = 16;
/// Where the functions are in the declaration.
const FUNCTIONS: [(&str, u64); 3] = [("open", 32), ("send", 40), ("close", 48)];
/// The largest manifest, in bytes.
const LARGEST_MANIFEST: u64 = 1024 * 1024;

/// What the file of a good library says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The beginning of its declaration.
    pub prefix: DeclPrefix,
    /// Its manifest.
    pub manifest: Manifest,
}

/// Looks at the bytes of a file. None of its code runs.
///
/// # Errors
/// Everything that is wrong with it, as far as it could be read.
pub fn inspect(data: &[u8]) -> Result<Header, Flaws> {
    kind(data)?;
    let file = ElfFile64::<LittleEndian>::parse(data)
        .map_err(|error| Flaw::Damaged { reason: error.to_string() })?;
    let view = View { file, data };
    let decl = view.symbol(DECL_SYMBOL)?;
    let prefix = view.prefix(&decl)?;
    if prefix.abi_major != ABI_MAJOR {
        // Everything behind the first 16 bytes may mean something else.
        return Err(Flaw::Major { found: prefix.abi_major, made_with: view.made_with() }.into());
    }
    let mut flaws = Vec::new();
    view.functions(&decl, &prefix, &mut flaws);
    let manifest = match view.manifest() {
        Ok(text) => manifest::read(text, prefix.abi_minor > ABI_MINOR, &mut flaws),
        Err(flaw) => {
            flaws.push(flaw);
            None
        }
    };
    match (Flaws::of(flaws), manifest) {
        (None, Some(manifest)) => Ok(Header { prefix, manifest }),
        (Some(flaws), _) => Err(flaws),
        (None, None) => Err(Flaw::ProvidesNothing.into()),
    }
}

/// Whether it is a whole shared library for this processor.
fn kind(data: &[u8]) -> Result<(), Flaw> {
    let Some(rest) = data.strip_prefix(b"\x7fELF") else { return Err(no_elf(data)) };
    let here = std::env::consts::ARCH;
    if rest.first() == Some(&elf::ELFCLASS32.0) {
        return Err(Flaw::Bits32 { here });
    }
    let found = len(data);
    let header = FileHeader64::<LittleEndian>::parse(data);
    let smallest = len_of::<FileHeader64<LittleEndian>>();
    if found < smallest {
        return Err(Flaw::Truncated { expected: smallest, found });
    }
    let header = header.map_err(|error| Flaw::Damaged { reason: error.to_string() })?;
    let endian = header
        .endian()
        .map_err(|_| Flaw::Processor { found: "of the other byte order".to_owned(), here })?;
    let machine = header.e_machine(endian).0;
    if processor(machine) != Some(here) {
        let found = processor(machine).map_or_else(|| format!("number {machine}"), str::to_owned);
        return Err(Flaw::Processor { found, here });
    }
    match header.e_type(endian) {
        elf::ET_DYN => whole(header, data),
        elf::ET_EXEC => Err(Flaw::NotShared { what: "a program" }),
        elf::ET_REL => Err(Flaw::NotShared { what: "an object file" }),
        elf::ET_CORE => Err(Flaw::NotShared { what: "the memory of a crashed program" }),
        _ => Err(Flaw::NotShared { what: "an ELF file of an unknown type" }),
    }
}

fn no_elf(data: &[u8]) -> Flaw {
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
        return Flaw::Empty;
    }
    if data.starts_with(b"!<arch>\n") || data.starts_with(b"!<thin>\n") {
        return Flaw::Archive;
    }
    match FOREIGN.iter().find(|(magic, _)| data.starts_with(magic)) {
        Some((_, what)) => Flaw::Foreign { what },
        None => Flaw::NoObject { beginning: beginning(data, 24) },
    }
}

/// The name that the standard library has for a processor.
const fn processor(machine: u16) -> Option<&'static str> {
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

/// A file that is cut off is mapped without complaint, and then kills who touches what is missing.
fn whole(header: &FileHeader64<LittleEndian>, data: &[u8]) -> Result<(), Flaw> {
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
        return Err(Flaw::Truncated { expected, found });
    }
    let has = |kind| segments.iter().any(|segment| segment.p_type(endian) == kind);
    if !has(elf::PT_DYNAMIC) || !has(elf::PT_LOAD) {
        return Err(Flaw::NotShared { what: "a file without a part for the dynamic linker" });
    }
    if has(elf::PT_INTERP) {
        return Err(Flaw::NotShared { what: "a program" });
    }
    Ok(())
}

/// A symbol that is in the file.
struct Symbol {
    name: &'static str,
    address: u64,
    size: u64,
}

struct View<'data> {
    file: ElfFile64<'data, LittleEndian>,
    data: &'data [u8],
}

impl<'data> View<'data> {
    /// The data symbol of that name.
    fn symbol(&self, name: &'static str) -> Result<Symbol, Flaw> {
        let table = self.file.elf_dynamic_symbol_table();
        let mut named = table.iter().filter(|symbol| {
            table.symbol_name(LittleEndian, symbol).is_ok_and(|found| found == name.as_bytes())
        });
        let Some(symbol) = named.next() else { return Err(Flaw::NoSymbol { symbol: name }) };
        if symbol.is_undefined(LittleEndian) {
            return Err(Flaw::Imported { symbol: name });
        }
        if matches!(symbol.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) {
            return Err(Flaw::NotData { symbol: name });
        }
        let (address, size) = (symbol.st_value(LittleEndian), symbol.st_size(LittleEndian));
        Ok(Symbol { name, address, size })
    }

    /// What the linker would put at an address, before it relocates.
    fn bytes(&self, symbol: &Symbol, offset: u64, size: u64) -> Result<&'data [u8], Flaw> {
        self.file
            .elf_program_headers()
            .iter()
            .filter(|segment| segment.p_type(LittleEndian) == elf::PT_LOAD)
            .find_map(|segment| {
                let address = symbol.address.checked_add(offset)?;
                segment.data_range(LittleEndian, self.data, address, size).ok().flatten()
            })
            .ok_or(Flaw::NoContent { symbol: symbol.name })
    }

    fn prefix(&self, decl: &Symbol) -> Result<DeclPrefix, Flaw> {
        if decl.size < PREFIX_SIZE {
            let found = decl.size;
            return Err(Flaw::SymbolSize { symbol: decl.name, found, expected: PREFIX_SIZE });
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
            return Err(Flaw::Magic { found: beginning(&prefix.magic, 8) });
        }
        Ok(prefix)
    }

    fn functions(&self, decl: &Symbol, prefix: &DeclPrefix, flaws: &mut Vec<Flaw>) {
        if prefix.size < DECL_SIZE || u64::from(prefix.size) > decl.size {
            flaws.push(Flaw::DeclSize { found: prefix.size, there: decl.size });
            return;
        }
        for (field, offset) in FUNCTIONS {
            match self.bytes(decl, offset, 8) {
                // The linker fills it in: it is null only if it is not told to.
                Ok(bytes) if bytes.iter().all(|byte| *byte == 0) => {
                    if !self.is_relocated(decl.address.saturating_add(offset)) {
                        flaws.push(Flaw::Null { field });
                    }
                }
                Ok(_) => {}
                Err(flaw) => {
                    flaws.push(flaw);
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

    /// The manifest's text.
    fn manifest(&self) -> Result<&'data [u8], Flaw> {
        let symbol = self.symbol(MANIFEST_SYMBOL)?;
        let found = symbol.size;
        if found > LARGEST_MANIFEST {
            let error = format!("it has {found} bytes, at most {LARGEST_MANIFEST} are read");
            return Err(Flaw::ManifestWrong { error });
        }
        if found < 2 {
            return Err(Flaw::SymbolSize { symbol: symbol.name, found, expected: 2 });
        }
        let text = self.bytes(&symbol, 0, symbol.size)?;
        Ok(text.strip_suffix(b"\0").unwrap_or(text))
    }

    /// What the manifest of another version says that it was made with: for a message, if it can be
    /// read.
    fn made_with(&self) -> String {
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
