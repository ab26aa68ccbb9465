//! One call: its input as blocks, each in the cheapest of the codes that its level looks at.

use alloc::{boxed::Box, vec::Vec};
use core::fmt;

use crate::bits::{BitWriter, Partial, STAGE, Stage, stored};
use crate::code::{
    Code, DYNAMIC, FIXED_ID, Frequencies, StaticCode, StaticId, Symbols, preset_for, static_codes,
};
use crate::huffman::{Description, LIMIT, Lengths, code_lengths};
use crate::parse::{Bucket, Sink, parse};
use crate::probe::looks_random;
use crate::symbols::{DISTANCES, LITERALS_AND_LENGTHS};
use crate::tokens::{Collect, TOKENS, Write, write_tokens};
use crate::window::{WINDOW, Window, boxed_array};
use crate::{Content, Ending, Level};

/// Entries of the largest table.
const TABLE: usize = 1 << 14;
/// The most input of a block in one pass: in the longest codes it still fits the stage.
const ONE_PASS_BLOCK: usize = WINDOW;
/// The most input of a block in two passes.
const TWO_PASS_BLOCK: usize = TOKENS - 1;

const _: () = assert!(ONE_PASS_BLOCK * LIMIT / 8 + 256 < STAGE);

/// What a thread lends to each call; it carries nothing from one call to the next.
pub struct Scratch {
    window: Window,
    newest: Box<[u16; TABLE]>,
    two_newest: Box<[u32; TABLE]>,
    tokens: Box<[u32; TOKENS]>,
    frequencies: Box<Frequencies>,
    stage: Box<Stage>,
    dynamic: Box<Dynamic>,
    statics: Box<[StaticCode]>,
}

/// A code made for one block.
struct Dynamic {
    lengths: Lengths,
    description: Description,
    code: Code,
}

impl Scratch {
    /// Allocates everything that encoding will ever need: some 600 kB, of which small bodies touch little.
    pub fn new() -> Self {
        let lengths = Lengths { literals: [0; 288], distances: [0; 32] };
        Self {
            window: Window::new(),
            newest: boxed_array(0),
            two_newest: boxed_array(0),
            tokens: boxed_array(0),
            frequencies: Box::new(Frequencies::NONE),
            stage: boxed_array(0),
            dynamic: Box::new(Dynamic { lengths, description: Description::EMPTY, code: Code::EMPTY }),
            statics: static_codes(),
        }
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) partial: Partial,
    /// The static code whose block is still open.
    pub(crate) open: Option<StaticId>,
}

/// Encodes all of `input` as the next part of a stream.
pub(crate) fn encode(
    input: &[u8],
    ending: Ending,
    level: Level,
    content: Content,
    position: Position,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Position {
    let mut call = Call { input, content, position, out, scratch, loaded: 0, finished: false };
    if !input.is_empty() {
        call.blocks(ending, level);
    }
    call.end(ending);
    call.position
}

struct Call<'a> {
    input: &'a [u8],
    content: Content,
    position: Position,
    out: &'a mut Vec<u8>,
    scratch: &'a mut Scratch,
    /// Input bytes in the window so far.
    loaded: usize,
    /// Whether the last block is marked as such.
    finished: bool,
}

impl Call<'_> {
    fn blocks(&mut self, ending: Ending, level: Level) {
        let all = self.input.len();
        self.clear_table(level);
        let most = if level == Level::Fast { ONE_PASS_BLOCK } else { TWO_PASS_BLOCK };
        // Blocks of equal size: a short last one would pay for a description of its own.
        let count = all.div_ceil(most);
        let mut start = 0;
        for i in 1..=count {
            let end = (all as u64 * i as u64 / count as u64) as usize;
            let last = ending == Ending::Finish && i == count;
            if looks_random(&self.input[start..end]) {
                self.stored(start, end, last);
            } else if level == Level::Fast {
                self.one_pass(start, end, last);
            } else {
                self.two_passes(start, end, last, level);
            }
            start = end;
        }
    }

    /// Only as much of the table is used, and cleared, as the input is worth.
    fn clear_table(&mut self, level: Level) {
        let size = table_size(self.input.len());
        match level {
            Level::Fast | Level::Default => self.scratch.newest[..size].fill(0),
            Level::High => self.scratch.two_newest[..size].fill(0),
        }
    }

    fn one_pass(&mut self, start: usize, end: usize, last: bool) {
        let id = preset_for(self.content);
        let statics = &self.scratch.statics;
        let Some(code) = statics.get(usize::from(id)) else { return };
        let mut writer = BitWriter::new(&mut self.scratch.stage, self.position.partial);
        let continues = self.position.open == Some(id);
        let last = last && !continues;
        if !continues {
            close(&mut writer, statics, self.position.open);
            for (bits, count) in code.header(last) {
                writer.put(bits, count);
            }
        }
        let mut sink = Write { writer: &mut writer, code: &code.code };
        let search = Search { input: self.input, window: &mut self.scratch.window, loaded: &mut self.loaded };
        search.run(&mut self.scratch.newest, start, end, &mut sink);
        if writer.bytes() > end - start {
            self.stored(start, end, last);
            return;
        }
        if last {
            let (bits, count) = code.code.end();
            writer.put(bits, count);
            self.finished = true;
        }
        self.position.partial = writer.drain(self.out);
        self.position.open = (!last).then_some(id);
    }

    fn two_passes(&mut self, start: usize, end: usize, last: bool, level: Level) {
        let Scratch { window, newest, two_newest, tokens, frequencies, stage, dynamic, statics } =
            self.scratch;
        **frequencies = Frequencies::NONE;
        let mut sink = Collect::new(tokens, frequencies);
        let search = Search { input: self.input, window, loaded: &mut self.loaded };
        if level == Level::High {
            search.run(two_newest, start, end, &mut sink);
        } else {
            search.run(newest, start, end, &mut sink);
        }
        let count = sink.count();
        let choice =
            choose(frequencies, count, self.content, self.position.open, end - start, statics, dynamic);
        let mut writer = BitWriter::new(stage, self.position.partial);
        match choice {
            Choice::Stored => return self.stored(start, end, last),
            Choice::Static(id) => {
                let code = &statics[usize::from(id)];
                let continues = self.position.open == Some(id);
                let last = last && !continues;
                if !continues {
                    close(&mut writer, statics, self.position.open);
                    for (bits, count) in code.header(last) {
                        writer.put(bits, count);
                    }
                }
                write_tokens(&mut writer, &tokens[..count], &code.code);
                if last {
                    let (bits, count) = code.code.end();
                    writer.put(bits, count);
                    self.finished = true;
                }
                self.position.open = (!last).then_some(id);
            }
            Choice::Dynamic => {
                close(&mut writer, statics, self.position.open);
                writer.put(DYNAMIC | u64::from(last), 3);
                for &(value, bits) in dynamic.description.pieces() {
                    writer.put(u64::from(value), u32::from(bits));
                }
                dynamic.code.set(&dynamic.lengths);
                write_tokens(&mut writer, &tokens[..count], &dynamic.code);
                let (bits, count) = dynamic.code.end();
                writer.put(bits, count);
                self.finished = last;
                self.position.open = None;
            }
        }
        self.position.partial = writer.drain(self.out);
    }

    fn stored(&mut self, start: usize, end: usize, last: bool) {
        self.close();
        self.position.partial = stored(self.position.partial, &self.input[start..end], last, self.out);
        self.finished = last;
    }

    /// Ends an open block.
    fn close(&mut self) {
        let mut writer = BitWriter::new(&mut self.scratch.stage, self.position.partial);
        close(&mut writer, &self.scratch.statics, self.position.open);
        self.position = Position { partial: writer.drain(self.out), open: None };
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
                let mut writer = BitWriter::new(&mut self.scratch.stage, self.position.partial);
                close(&mut writer, &self.scratch.statics, self.position.open);
                if !self.finished {
                    let fixed = &self.scratch.statics[usize::from(FIXED_ID)];
                    for (bits, count) in fixed.header(true) {
                        writer.put(bits, count);
                    }
                    let (bits, count) = fixed.code.end();
                    writer.put(bits, count);
                }
                // Up to the byte boundary.
                writer.put(0, 7);
                let partial = writer.drain(self.out);
                debug_assert!(partial.count < 8);
                self.position = Position::default();
            }
        }
    }
}

/// Ends the block of a static code.
fn close(writer: &mut BitWriter<'_>, statics: &[StaticCode], open: Option<StaticId>) {
    if let Some(code) = open.and_then(|id| statics.get(usize::from(id))) {
        let (bits, count) = code.code.end();
        writer.put(bits, count);
    }
}

/// Table entries for an input of so many bytes.
const fn table_size(input: usize) -> usize {
    match input {
        ..1024 => 1 << 10,
        1024..6144 => 1 << 12,
        6144..16384 => 1 << 13,
        _ => TABLE,
    }
}

/// Finds matches, and brings input into the window as it is reached.
struct Search<'a> {
    input: &'a [u8],
    window: &'a mut Window,
    loaded: &'a mut usize,
}

impl Search<'_> {
    fn run<B: Bucket<N>, const N: usize, S: Sink>(
        self,
        table: &mut [B; TABLE],
        start: usize,
        end: usize,
        sink: &mut S,
    ) {
        let mut at = start;
        while at < end {
            let stop = end.min((at / WINDOW + 1) * WINDOW);
            while *self.loaded < stop {
                let half = &self.input[*self.loaded..self.input.len().min(*self.loaded + WINDOW)];
                self.window.load(*self.loaded, half);
                *self.loaded += half.len();
            }
            let window = &*self.window;
            match table_size(self.input.len()) {
                1024 => sized::<B, N, 1024, S>(window, table, at, stop, sink),
                4096 => sized::<B, N, 4096, S>(window, table, at, stop, sink),
                8192 => sized::<B, N, 8192, S>(window, table, at, stop, sink),
                _ => parse::<B, N, TABLE, S>(window, table, at, stop, sink),
            }
            at = stop;
        }
    }
}

fn sized<B: Bucket<N>, const N: usize, const SIZE: usize, S: Sink>(
    window: &Window,
    table: &mut [B; TABLE],
    start: usize,
    end: usize,
    sink: &mut S,
) {
    if let Some(table) = table.first_chunk_mut::<SIZE>() {
        parse::<B, N, SIZE, S>(window, table, start, end, sink);
    }
}

/// How a block is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Stored,
    Static(StaticId),
    Dynamic,
}

/// Fewer tokens than this never pay for a description.
const LEAST_DYNAMIC: usize = 64;

/// The cheapest way of writing a block, by exact cost in bits.
fn choose(
    frequencies: &Frequencies,
    tokens: usize,
    content: Content,
    open: Option<StaticId>,
    input: usize,
    statics: &[StaticCode],
    dynamic: &mut Dynamic,
) -> Choice {
    let symbols = Symbols::of(frequencies);
    // Three header bits, at most seven to the byte boundary, twice the length.
    let mut best = (input as u32 * 8 + 42, Choice::Stored);
    let hinted = preset_for(content);
    for (id, code) in (0..).zip(statics) {
        let tried = id == FIXED_ID || hinted == FIXED_ID || id == hinted || open == Some(id);
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
        let Dynamic { lengths, description, .. } = dynamic;
        code_lengths(
            &symbols.literals[..LITERALS_AND_LENGTHS],
            LIMIT,
            &mut lengths.literals[..LITERALS_AND_LENGTHS],
        );
        code_lengths(&symbols.distances[..DISTANCES], LIMIT, &mut lengths.distances[..DISTANCES]);
        if lengths.distances.iter().all(|&length| length == 0) {
            // RFC 1951 section 3.2.7: at least one distance code is described, used or not.
            lengths.distances[0] = 1;
        }
        description.write(lengths);
        let cost = symbols.cost(lengths) + description.bits + 3;
        if cost < best.0 {
            best = (cost, Choice::Dynamic);
        }
    }
    best.1
}
