//! One call: its input as blocks, each in the cheapest of the codes that its level looks at.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use crate::arena::{Arena, STAGE, TABLE, TOKENS, WINDOW};
use crate::bits::{BitWriter, Partial, stored};
use crate::code::{
    CJK_ID, Code, DYNAMIC, FIXED_ID, Frequencies, StaticCode, StaticId, Symbols, preset_for, static_codes,
};
use crate::huffman::{Description, LIMIT, Lengths, Workspace, code_lengths};
use crate::parse::{LEAST, LEAST_IN_FIXED, LEAST_OF_TWO, Sink, insert_window, parse};
use crate::probe::looks_random;
use crate::symbols::{DISTANCES, LITERALS_AND_LENGTHS};
use crate::tokens::{Collect, Write, write_tokens};
use crate::{Content, Ending, Level};

/// The most input of a block in one pass: in the longest codes it still fits the stage.
const ONE_PASS_BLOCK: usize = WINDOW;
/// The most input of a block in two passes: its tokens fit, and so do its bits, which are hardly more than the input's.
/// It is what callers gather for a call: a byte less would make two blocks of it, with a description each.
const TWO_PASS_BLOCK: usize = TOKENS;
/// What a stored block needs besides its input, at most: header, padding, the length twice.
const STORED_BYTES: usize = 6;
/// Calls below this are not worth a look at what they hold.
const LEAST_SAMPLED: usize = 512;
/// Calls below this are not worth a code of their own in one pass.
const LEAST_LEARNED: usize = 4096;
/// A code is learned from so many of the first bytes.
const LEARNED_FROM: usize = 6144;
/// So many runs of so many bytes tell whether a code suits.
const SAMPLED_RUNS: usize = 32;
const SAMPLED_RUN: usize = 16;
/// Bytes that begin a kana or one of the common Chinese characters (RFC 3629 section 3): a third of such a text.
const CJK_LEADS: core::ops::RangeInclusive<u8> = 0xe3..=0xe9;
/// It does where a byte takes at most as many bits in it, in tenths, before any copy is found.
const FOREIGN_BITS: usize = 64;
/// Bodies and pieces below this are not worth the description of a preset code.
const LEAST_PRESET: usize = 256;

const _: () = assert!(ONE_PASS_BLOCK * LIMIT / 8 + 256 < STAGE);
const _: () = assert!(TWO_PASS_BLOCK + STORED_BYTES + 2 < STAGE);

/// What a thread lends to each call; it carries nothing from one call to the next.
pub struct Scratch {
    arena: Box<Arena>,
    dynamic: Box<Dynamic>,
    statics: Box<[StaticCode]>,
}

/// A code made for one block.
struct Dynamic {
    lengths: Lengths,
    description: Description,
    code: Code,
    workspace: Workspace,
}

impl Dynamic {
    /// Makes the code lengths for these symbols, and their description.
    #[inline]
    fn make(&mut self, symbols: &Symbols) {
        let Self { lengths, description, workspace, .. } = self;
        let literals = &mut lengths.literals[..LITERALS_AND_LENGTHS];
        lengths.literal_counts =
            code_lengths(&symbols.literals[..LITERALS_AND_LENGTHS], LIMIT, literals, workspace);
        let distances = &mut lengths.distances[..DISTANCES];
        lengths.distance_counts = code_lengths(&symbols.distances[..DISTANCES], LIMIT, distances, workspace);
        if lengths.distance_counts == [0; 16] {
            // RFC 1951 section 3.2.7: at least one distance code is described, used or not.
            lengths.distances[0] = 1;
            lengths.distance_counts[1] = 1;
        }
        description.write(lengths, workspace);
    }

    /// Makes the code, and writes the head of a block in it.
    #[inline]
    fn begin(&mut self, writer: &mut BitWriter, arena: &mut Arena, last: bool) {
        writer.put(arena.stage(), DYNAMIC | u64::from(last), 3);
        for &(value, bits) in self.description.pieces() {
            writer.put(arena.stage(), u64::from(value), u32::from(bits));
        }
        self.code.set(&self.lengths);
    }
}

impl Scratch {
    /// Allocates everything that encoding will ever need: some 500 kB, of which small bodies touch little.
    pub fn new() -> Self {
        Self {
            arena: Box::new(Arena::EMPTY),
            dynamic: Box::new(Dynamic {
                lengths: Lengths::NONE,
                description: Description::EMPTY,
                code: Code::EMPTY,
                workspace: Workspace::EMPTY,
            }),
            statics: static_codes(),
        }
    }
}

#[cfg(test)]
impl Scratch {
    /// Puts other bytes everywhere that a call may leave some.
    pub(crate) fn spoil(&mut self, byte: u8) {
        let Dynamic { lengths, description, code, workspace } = &mut *self.dynamic;
        self.arena.spoil(byte);
        *lengths = Lengths::new([byte % 16; 288], [byte % 16; 32]);
        description.spoil(byte);
        code.spoil(byte);
        workspace.spoil(byte);
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

/// Where the bit stream stands between blocks and between calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Position {
    pub(crate) partial: Partial,
    /// The static code whose block is still open.
    pub(crate) open: Option<StaticId>,
}

/// What a call is given: positions count from the first byte of the window.
#[derive(Clone, Copy)]
pub(crate) struct Input<'a> {
    /// What the stream was given just before, at most [`WINDOW`] of it; copies may reach into it.
    window: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(window: &'a [u8], bytes: &'a [u8]) -> Self {
        Self { window: &window[window.len().saturating_sub(WINDOW)..], bytes }
    }

    /// The position behind the last byte.
    fn end(&self) -> usize {
        self.window.len() + self.bytes.len()
    }

    /// The bytes to be encoded from one position to another.
    fn between(&self, start: usize, end: usize) -> &'a [u8] {
        &self.bytes[start - self.window.len()..end - self.window.len()]
    }
}

/// Encodes all of `input` as the next part of a stream.
pub(crate) fn encode(
    input: Input<'_>,
    ending: Ending,
    level: Level,
    content: Content,
    position: Position,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Position {
    let mut call =
        Call { input, content, position, out, scratch, loaded: 0, finished: false, learned: false };
    if !input.bytes.is_empty() {
        call.blocks(ending, level);
    }
    call.end(ending);
    call.position
}

struct Call<'a> {
    input: Input<'a>,
    content: Content,
    position: Position,
    out: &'a mut Vec<u8>,
    scratch: &'a mut Scratch,
    /// The position up to which the ring has been filled.
    loaded: usize,
    /// Whether the last block is marked as such.
    finished: bool,
    /// Whether a block in the code of [`Call::learn`] is open.
    learned: bool,
}

impl Call<'_> {
    fn blocks(&mut self, ending: Ending, level: Level) {
        let all = self.input.bytes.len();
        self.clear_table(level);
        let one_pass = (level == Level::Fast).then(|| self.suited());
        let most = if level == Level::Fast { ONE_PASS_BLOCK } else { TWO_PASS_BLOCK };
        // Blocks of equal size: a short last one would pay for a description of its own.
        let count = all.div_ceil(most);
        let before = self.input.window.len();
        let mut start = before;
        for i in 1..=count {
            let end = before + (all as u64 * i as u64 / count as u64) as usize;
            let last = ending == Ending::Finish && i == count;
            if looks_random(self.input.between(start, end)) {
                self.stored(start, end, last);
            } else {
                match one_pass {
                    Some(OnePass::Static(id)) => self.one_pass(start, end, last, id),
                    Some(OnePass::Learned) => self.learned(start, end, last),
                    None => self.two_passes(start, end, last, level),
                }
            }
            start = end;
        }
        self.close_learned();
    }

    /// Only as much of the table is used, and cleared, as the input is worth.
    fn clear_table(&mut self, level: Level) {
        let size = table_size(self.input.end(), level == Level::High);
        self.scratch.arena.newest[..size].fill(0);
        if level == Level::High {
            self.scratch.arena.newest_long[..2 * size].fill(0);
        }
    }

    fn one_pass(&mut self, start: usize, end: usize, last: bool, suited: StaticId) {
        let id = match self.position.open {
            Some(open) if end - start < LEAST_PRESET => open,
            _ => suited,
        };
        let Scratch { arena, statics, .. } = &mut *self.scratch;
        let code = &statics[usize::from(id)];
        let mut writer = BitWriter::new(self.position.partial);
        let last = open(&mut writer, arena, statics, self.position.open, id, last);
        let sink = Write { writer, code: &code.code };
        let mut search = Search { input: self.input, arena, loaded: &mut self.loaded };
        let Write { mut writer, .. } = if id == FIXED_ID {
            search.run::<false, LEAST_IN_FIXED, _>(start, end, sink)
        } else {
            search.run::<false, LEAST, _>(start, end, sink)
        };
        if writer.bytes() > end - start + STORED_BYTES {
            self.stored(start, end, last);
            return;
        }
        if last {
            let (bits, count) = code.code.end();
            writer.put(arena.stage(), bits, count);
            self.finished = true;
        }
        self.position.partial = writer.drain(arena.stage(), self.out);
        self.position.open = (!last).then_some(id);
    }

    /// The code for a call in one pass, by a sample of its bytes: the one for its content where it suits them, the one
    /// for Chinese and Japanese where they are that, else one that is learned.
    fn suited(&self) -> OnePass {
        let (bytes, hinted) = (self.input.bytes, preset_for(self.content));
        if bytes.len() < LEAST_SAMPLED {
            return OnePass::Static(if bytes.len() < LEAST_PRESET { FIXED_ID } else { hinted });
        }
        let runs = bytes.chunks(bytes.len() / SAMPLED_RUNS).take(SAMPLED_RUNS);
        let sample = || runs.clone().flat_map(|chunk| &chunk[..SAMPLED_RUN]);
        let lengths = &self.scratch.statics[usize::from(hinted)].lengths.literals;
        let bits: usize = sample().map(|&byte| usize::from(lengths[usize::from(byte)])).sum();
        if bits * 10 <= FOREIGN_BITS * SAMPLED_RUNS * SAMPLED_RUN {
            return OnePass::Static(hinted);
        }
        let is_cjk =
            sample().filter(|byte| CJK_LEADS.contains(byte)).count() > SAMPLED_RUNS * SAMPLED_RUN / 8;
        match (is_cjk, bytes.len() < LEAST_LEARNED) {
            (true, _) => OnePass::Static(CJK_ID),
            (false, true) => OnePass::Static(hinted),
            (false, false) => OnePass::Learned,
        }
    }

    /// One pass with a code that is made from the first bytes of the call, and stays for all of it.
    fn learned(&mut self, start: usize, end: usize, last: bool) {
        let (mut writer, mut at) = (BitWriter::new(self.position.partial), start);
        let fresh = !self.learned;
        if fresh {
            at = end.min(start + LEARNED_FROM);
            writer = self.learn(start, at, last);
        }
        let Scratch { arena, dynamic, .. } = &mut *self.scratch;
        let mut search = Search { input: self.input, arena, loaded: &mut self.loaded };
        let sink = Write { writer, code: &dynamic.code };
        let Write { mut writer, .. } = search.run::<false, LEAST, _>(at, end, sink);
        if writer.bytes() > end - start + STORED_BYTES {
            self.stored(start, end, last);
            return;
        }
        self.learned = true;
        if fresh {
            self.position.open = None;
        }
        if last && fresh {
            let (bits, count) = dynamic.code.end();
            writer.put(arena.stage(), bits, count);
            self.finished = true;
            self.learned = false;
        }
        self.position.partial = writer.drain(arena.stage(), self.out);
    }

    /// Makes a code from the bytes given and writes them in it.
    fn learn(&mut self, start: usize, end: usize, last: bool) -> BitWriter {
        let Scratch { arena, dynamic, statics } = &mut *self.scratch;
        arena.frequencies = Frequencies::NONE;
        let mut search = Search { input: self.input, arena, loaded: &mut self.loaded };
        let Collect { count: tokens } = search.run::<false, LEAST, _>(start, end, Collect::default());
        let mut symbols = Symbols::of(&arena.frequencies);
        symbols.add_expected(&statics[usize::from(preset_for(self.content))].lengths);
        dynamic.make(&symbols);
        let mut writer = BitWriter::new(self.position.partial);
        close(&mut writer, arena, statics, self.position.open);
        dynamic.begin(&mut writer, arena, last);
        write_tokens(&mut writer, arena, tokens, &dynamic.code);
        writer
    }

    /// Ends the block of the code that was learned.
    fn close_learned(&mut self) {
        if self.learned {
            let Scratch { arena, dynamic, .. } = &mut *self.scratch;
            let mut writer = BitWriter::new(self.position.partial);
            let (bits, count) = dynamic.code.end();
            writer.put(arena.stage(), bits, count);
            self.position.partial = writer.drain(arena.stage(), self.out);
            self.learned = false;
        }
    }

    fn two_passes(&mut self, start: usize, end: usize, last: bool, level: Level) {
        let Scratch { arena, dynamic, statics } = &mut *self.scratch;
        arena.frequencies = Frequencies::NONE;
        let mut search = Search { input: self.input, arena, loaded: &mut self.loaded };
        let Collect { count: tokens } = match level {
            Level::High => search.run::<true, LEAST_OF_TWO, _>(start, end, Collect::default()),
            Level::Fast | Level::Default => search.run::<false, LEAST, _>(start, end, Collect::default()),
        };
        let block = Block { tokens, input: end - start, content: self.content, open: self.position.open };
        let mut writer = BitWriter::new(self.position.partial);
        match choose(&arena.frequencies, block, statics, dynamic) {
            Choice::Stored => return self.stored(start, end, last),
            Choice::Static(id) => {
                let last = open(&mut writer, arena, statics, self.position.open, id, last);
                let code = &statics[usize::from(id)].code;
                write_tokens(&mut writer, arena, tokens, code);
                if last {
                    let (bits, count) = code.end();
                    writer.put(arena.stage(), bits, count);
                    self.finished = true;
                }
                self.position.open = (!last).then_some(id);
            }
            Choice::Dynamic => {
                close(&mut writer, arena, statics, self.position.open);
                dynamic.begin(&mut writer, arena, last);
                write_tokens(&mut writer, arena, tokens, &dynamic.code);
                let (bits, count) = dynamic.code.end();
                writer.put(arena.stage(), bits, count);
                self.finished = last;
                self.position.open = None;
            }
        }
        self.position.partial = writer.drain(arena.stage(), self.out);
    }

    fn stored(&mut self, start: usize, end: usize, last: bool) {
        self.close_learned();
        self.close();
        self.position.partial = stored(self.position.partial, self.input.between(start, end), last, self.out);
        self.finished = last;
    }

    /// Ends an open block.
    fn close(&mut self) {
        let Scratch { arena, statics, .. } = &mut *self.scratch;
        let mut writer = BitWriter::new(self.position.partial);
        close(&mut writer, arena, statics, self.position.open);
        self.position = Position { partial: writer.drain(arena.stage(), self.out), open: None };
    }

    fn end(&mut self, ending: Ending) {
        match ending {
            Ending::Open => {}
            Ending::Sync => {
                if self.position.open.is_some() || self.position.partial.count > 0 {
                    self.close();
                    self.position.partial = stored(self.position.partial, &[], false, self.out);
                }
            }
            Ending::Finish => {
                let Scratch { arena, statics, .. } = &mut *self.scratch;
                let mut writer = BitWriter::new(self.position.partial);
                if !self.finished {
                    let last = open(&mut writer, arena, statics, self.position.open, FIXED_ID, true);
                    let (bits, count) = statics[usize::from(FIXED_ID)].code.end();
                    writer.put(arena.stage(), bits, count);
                    if !last {
                        // The fixed code was open: an empty block is the last.
                        open(&mut writer, arena, statics, None, FIXED_ID, true);
                        writer.put(arena.stage(), bits, count);
                    }
                }
                // Up to the byte boundary.
                writer.put(arena.stage(), 0, 7);
                writer.drain(arena.stage(), self.out);
                self.position = Position::default();
            }
        }
    }
}

/// Ends the block of a static code.
fn close(writer: &mut BitWriter, arena: &mut Arena, statics: &[StaticCode], open: Option<StaticId>) {
    if let Some(id) = open {
        let (bits, count) = statics[usize::from(id)].code.end();
        writer.put(arena.stage(), bits, count);
    }
}

/// Begins a block of a static code, unless one is open already. Whether the block is the last: one that is open
/// was said not to be.
fn open(
    writer: &mut BitWriter,
    arena: &mut Arena,
    statics: &[StaticCode],
    open: Option<StaticId>,
    id: StaticId,
    last: bool,
) -> bool {
    if open == Some(id) {
        return false;
    }
    close(writer, arena, statics, open);
    for (bits, count) in statics[usize::from(id)].header(last) {
        writer.put(arena.stage(), bits, count);
    }
    last
}

/// Table entries for an input of so many bytes. With one candidate a table that leaves room in the first cache for what
/// is searched is faster by more than it makes larger.
const fn table_size(input: usize, two: bool) -> usize {
    match input {
        ..1024 => 1 << 10,
        1024..12288 => 1 << 12,
        _ if two => TABLE,
        _ => TABLE_OF_ONE,
    }
}

/// Entries of the largest table with one candidate.
const TABLE_OF_ONE: usize = TABLE / 2;

/// Finds matches, and brings input into the window as it is reached.
struct Search<'a> {
    input: Input<'a>,
    arena: &'a mut Arena,
    loaded: &'a mut usize,
}

impl Search<'_> {
    fn run<const TWO: bool, const LEAST: usize, S: Sink>(&mut self, start: usize, end: usize, sink: S) -> S {
        match table_size(self.input.end(), TWO) {
            1024 => self.sized::<1024, TWO, LEAST, S>(start, end, sink),
            4096 => self.sized::<4096, TWO, LEAST, S>(start, end, sink),
            TABLE => self.sized::<TABLE, TWO, LEAST, S>(start, end, sink),
            _ => self.sized::<TABLE_OF_ONE, TWO, LEAST, S>(start, end, sink),
        }
    }

    // A function of its own, so that its code is not arranged anew with whatever surrounds it.
    #[inline(never)]
    fn sized<const SIZE: usize, const TWO: bool, const LEAST: usize, S: Sink>(
        &mut self,
        start: usize,
        end: usize,
        mut sink: S,
    ) -> S {
        let mut at = start;
        while at < end {
            let stop = end.min((at / WINDOW + 1) * WINDOW);
            let first = *self.loaded == 0;
            self.load(stop);
            if first {
                insert_window::<SIZE, TWO, LEAST>(self.arena, self.input.window.len());
            }
            sink = parse::<SIZE, TWO, LEAST, S>(self.arena, at, stop, sink);
            at = stop;
        }
        sink
    }

    /// Fills the ring by halves, until it holds what comes before `stop`.
    fn load(&mut self, stop: usize) {
        let Input { window, bytes } = self.input;
        while *self.loaded < stop {
            if *self.loaded == 0 && !window.is_empty() {
                self.arena.load(0, window);
                *self.loaded = window.len();
            }
            let from = *self.loaded - window.len();
            let room = WINDOW - *self.loaded % WINDOW;
            let half = &bytes[from..bytes.len().min(from + room)];
            self.arena.load(*self.loaded, half);
            *self.loaded += half.len();
        }
    }
}

/// With which code a call is written in one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnePass {
    Static(StaticId),
    Learned,
}

/// How a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Stored,
    Static(StaticId),
    Dynamic,
}

/// More tokens than this always pay for a description.
const MOST_FIXED: usize = 512;
/// Fewer tokens than this never pay for a description.
const LEAST_DYNAMIC: usize = 64;

/// What is known of a block besides its symbols.
#[derive(Clone, Copy)]
struct Block {
    tokens: usize,
    /// Input bytes.
    input: usize,
    content: Content,
    open: Option<StaticId>,
}

/// The cheapest way of writing a block, by exact cost in bits.
fn choose(frequencies: &Frequencies, block: Block, statics: &[StaticCode], dynamic: &mut Dynamic) -> Choice {
    let Block { tokens, input, content, open } = block;
    let symbols = Symbols::of(frequencies);
    let mut best = ((input + STORED_BYTES) as u32 * 8, Choice::Stored);
    let hinted = preset_for(content);
    for (id, code) in (0..).zip(statics) {
        let tried = match id {
            FIXED_ID => tokens < MOST_FIXED,
            _ => hinted == FIXED_ID || id == hinted || open == Some(id),
        };
        if !tried {
            continue;
        }
        let header = if open == Some(id) { 0 } else { code.header_bits };
        let cost = symbols.cost(&code.lengths) + header;
        if cost < best.0 {
            best = (cost, Choice::Static(id));
        }
    }
    if tokens >= LEAST_DYNAMIC {
        dynamic.make(&symbols);
        let cost = symbols.cost(&dynamic.lengths) + dynamic.description.bits + 3;
        if cost < best.0 {
            best = (cost, Choice::Dynamic);
        }
    }
    best.1
}
