//! Reads what callgrind dumps: how often each instruction ran, what it missed in the cache, and who called whom
//! (the Callgrind Format Specification, without compressed names and positions).

use std::collections::BTreeMap;

/// The C library's functions that give memory; mimalloc's begin with `mi_`.
const GIVE_MEMORY: [&str; 6] = ["malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"];

/// The sums of one dump.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) instructions: u64,
    pub(super) l1i_misses: u64,
    /// Calls of functions that give memory, by others than such functions themselves.
    allocations: u64,
    /// Functions have names: without them an allocator is not known.
    named: bool,
    /// How often the instruction at each address of each program or library ran.
    pub(super) ran: BTreeMap<String, BTreeMap<u64, u64>>,
}

/// What the lines before the current one have said.
#[derive(Default)]
struct Reader<'a> {
    object: &'a str,
    function: &'a str,
    called: &'a str,
    /// Where instructions and misses stand among a line's figures.
    columns: Option<(usize, usize)>,
    /// The next line has the costs of what was called; they stand with what was called too.
    of_a_call: bool,
}

impl Dump {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut dump = Self::default();
        let mut reader = Reader::default();
        for line in text.lines() {
            dump.line(&mut reader, line).ok_or_else(|| format!("callgrind's dump has a line '{line}'"))?;
        }
        if reader.columns.is_none() {
            return Err("callgrind's dump names no events".to_owned());
        }
        Ok(dump)
    }

    pub(super) fn allocations(&self) -> Result<u64, String> {
        if self.named {
            Ok(self.allocations)
        } else {
            Err("allocations are not known: the program has no symbols".to_owned())
        }
    }

    fn line<'a>(&mut self, reader: &mut Reader<'a>, line: &'a str) -> Option<()> {
        if line.starts_with("0x") {
            if std::mem::take(&mut reader.of_a_call) {
                return Some(());
            }
            return self.instruction(reader, line);
        }
        if let Some(object) = line.strip_prefix("ob=") {
            reader.object = object;
        } else if let Some(function) = line.strip_prefix("fn=") {
            reader.function = function;
            self.named |= function.contains("::");
        } else if let Some(called) = line.strip_prefix("cfn=") {
            reader.called = called;
        } else if let Some(call) = line.strip_prefix("calls=") {
            reader.of_a_call = true;
            let count: u64 = call.split(' ').next()?.parse().ok()?;
            if gives_memory(reader.called) && !is_of_an_allocator(reader.function) {
                self.allocations += count;
            }
        } else if let Some(events) = line.strip_prefix("events: ") {
            let column = |name: &str| events.split(' ').position(|event| event == name);
            reader.columns = Some((column("Ir")?, column("I1mr")?));
        }
        Some(())
    }

    /// `ADDRESS LINE FIGURE...`; figures at the end that are 0 are left out.
    fn instruction(&mut self, reader: &Reader<'_>, line: &str) -> Option<()> {
        let (instructions, misses) = reader.columns?;
        let mut words = line.split(' ');
        let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        let figures: Vec<u64> = words.skip(1).map(str::parse).collect::<Result<_, _>>().ok()?;
        let figure = |column: usize| figures.get(column).copied().unwrap_or(0);
        self.instructions += figure(instructions);
        self.l1i_misses += figure(misses);
        if !self.ran.contains_key(reader.object) {
            self.ran.insert(reader.object.to_owned(), BTreeMap::new());
        }
        *self.ran.get_mut(reader.object)?.entry(address).or_default() += figure(instructions);
        Some(())
    }
}

fn gives_memory(function: &str) -> bool {
    GIVE_MEMORY.contains(&function) || function.starts_with("mi_") && function.contains("alloc")
}

fn is_of_an_allocator(function: &str) -> bool {
    gives_memory(function)
        || ["mi_", "_mi_", "__libc_", "_int_"].iter().any(|start| function.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# callgrind format
positions: instr line
events: Ir Dr Dw I1mr D1mr

ob=/bin/one
fl=a.c
fn=one::main
0x10 1 3 0 0 1
0x12 1 3
cfn=mi_malloc_aligned
calls=2 0x80 0
0x12 1 40 5 5 9
cob=/lib/libc.so
cfn=memcpy
calls=1 0x90 0
0x14 2 10
0x14 2 1

fn=mi_malloc_aligned
0x80 0 20 0 0 2
cfn=mi_malloc
calls=2 0x88 0
0x84 0 10

ob=/lib/libc.so
fn=memcpy
0x10 0 5

totals: 32 0 0 3
";

    #[test]
    fn what_a_function_calls_is_counted_once() {
        let dump = Dump::read(TEXT).unwrap();
        assert_eq!((dump.instructions, dump.l1i_misses), (3 + 3 + 1 + 20 + 5, 3));
    }

    #[test]
    fn an_allocator_that_calls_itself_gives_memory_once() {
        assert_eq!(Dump::read(TEXT).unwrap().allocations(), Ok(2));
    }

    #[test]
    fn without_names_allocations_are_not_known() {
        assert!(Dump::read(&TEXT.replace("one::main", "0x0010")).unwrap().allocations().is_err());
    }

    #[test]
    fn instructions_are_found_by_object_and_address() {
        let dump = Dump::read(TEXT).unwrap();
        assert_eq!(dump.ran["/bin/one"], BTreeMap::from([(0x10, 3), (0x12, 3), (0x14, 1), (0x80, 20)]));
        assert_eq!(dump.ran["/lib/libc.so"], BTreeMap::from([(0x10, 5)]));
    }

    #[test]
    fn other_text_is_an_error() {
        assert!(Dump::read("").is_err());
        assert!(Dump::read("events: Ir I1mr\n0x1 0 many\n").is_err());
        assert!(Dump::read("events: Ir\n").is_err());
    }
}
