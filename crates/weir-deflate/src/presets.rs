//! Code lengths of the presets, trained on pages, scripts and data of many origins by the benchmark's
//! `train`: of the literals and lengths, then of the distances, a hexadecimal digit each.

use crate::symbols::{DISTANCES, LITERALS_AND_LENGTHS};

/// In the order of `preset_for`: HTML, scripts and styles, JSON, XML, text.
#[rustfmt::skip]
pub(crate) const PRESETS: [&[u8; LITERALS_AND_LENGTHS + DISTANCES]; 5] = [
    b"\
    ccccccccc87cc9cccccccccccccccccc4a6aca9788b97676777788888888777ac898989a98ab99999b988aaacbcabac8c576\
    6476659856556a55567787aab9cccbcccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    cccccccccccccccccccccccccccbccccccccccccccccccccccccccccccc5566776778788989999aabbbccb6aaa8766554544\
    4444444445566ccb",
    b"\
    ccccccccc87ccccccccccccccccccccc499bbc98778967677788999a9a88b7aab899989aa9cb99999c9889aabbc9a9c99576\
    647775a967556a555688879898cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccbcc5555665667678989aaabcccccccbccc9876554444\
    4444444445566ccc",
    b"\
    cccccccccc8ccccccccccccccccccccc5c5bccccbbcc776965666666767cccccc999999ababaaaaaaca9abbbcccbcbc7b577\
    6587759867667a666688989ac9ccaabbcbcaccccbbbabbbbbaacabbbbccacbcc9b9abbbbbbbcababbaababbbababccc8cccc\
    cccccccc89ccccccccccccccacbcccccccccbcccacccccccccccccccbcc5566665546677879b9accccccc9bccc9865564544\
    3445444445567ccc",
    b"\
    ccccccccca9ccccccccccccccccccccc497ccccc9acc854755455556568b888ca8869989a7b977999b9889aac9accccbc686\
    768776b967667c666777988ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccabccc\
    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccacc5677787899799978acccccccccccb977647454444\
    3444455556668cbb",
    b"\
    cccccccccc8ccccccccccccccccccccc4cacbcc9aaac787a88999999999acbccc9a9baabb9ccbaaaaca99bcaccccccca8476\
    546764a856546a55467796accccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc455667788999bbbcccbcccccccc8cccb988776655\
    4444443434455ccc",
];
