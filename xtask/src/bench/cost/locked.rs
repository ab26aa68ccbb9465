//! Which instructions of a program are atomic read-modify-writes, out of its disassembly.

use crate::{debian, program};
use std::collections::BTreeMap;
use std::process::Command;

/// How many of the instructions that ran were atomic read-modify-writes.
pub(super) fn count(ran: &BTreeMap<String, BTreeMap<u64, u64>>) -> Result<u64, String> {
    if !cfg!(target_arch = "x86_64") {
        return Err("atomic instructions are known for x86-64 only".to_owned());
    }
    let objdump = debian::need("objdump", "binutils")?;
    let mut count = 0;
    // Objects without a name are code that valgrind or the kernel put there.
    for (object, ran) in ran.iter().filter(|(object, _)| object.starts_with('/')) {
        let text = program::output(Command::new(&objdump).args(["-d", "--no-show-raw-insn", object]))?;
        count += addresses(&text).filter_map(|address| ran.get(&address)).sum::<u64>();
    }
    Ok(count)
}

/// Addresses of instructions with the `lock` prefix, and of `xchg` with memory, which needs none.
fn addresses(disassembly: &str) -> impl Iterator<Item = u64> {
    disassembly.lines().filter_map(|line| {
        let (address, instruction) = line.split_once(":\t")?;
        let exchange = instruction.starts_with("xchg") && instruction.contains('(');
        let atomic = exchange || instruction.split(' ').next() == Some("lock");
        atomic.then(|| u64::from_str_radix(address.trim(), 16).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_instructions_are_found() {
        let text = "\n/bin/one:     file format elf64-x86-64\n\n0000000000001040 <lock>:\n    \
                    1040:\tlock cmpxchg %rdx,(%rdi)\n    1045:\txchg   %ax,%ax\n    1047:\txchg   %rax,0x8(%rsi)\n    \
                    104b:\tmov    %rax,(%rdi)\n    1050:\tlock incl 0x0(%rip)        # 1060 <lock>\n";
        assert_eq!(addresses(text).collect::<Vec<_>>(), [0x1040, 0x1047, 0x1050]);
    }
}
