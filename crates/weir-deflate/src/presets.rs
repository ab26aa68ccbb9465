//! Code lengths of the presets, trained on pages, scripts and data of many origins by the benchmark's
//! `train`: of the literals and lengths, then of the distances, a hexadecimal digit each.

use crate::symbols::{DISTANCES, LITERALS_AND_LENGTHS};

/// In the order of `preset_for`: HTML, scripts and styles, JSON, XML, text; then text in Chinese and Japanese, which no
/// type tells from other text.
#[rustfmt::skip]
pub(crate) const PRESETS: [&[u8; LITERALS_AND_LENGTHS + DISTANCES]; 6] = [
    b"\
    ccccccccc77cc9cccccccccccccccccc4a6aca9788b97676777788888888776ac898989a99ab99999b988aaacbcabac8c576\
    5466659856556a55567787aab9cccbbccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    cccccccccccccccccccccccccccacccccccccccccccccccccccccccccccc5667767787899899a9abbbbcca6bcb9867554544\
    4444444445556ccc",
    b"\
    ccccccccc87ccccccccccccccccccccc497bbc8877896668767777788878a6a9b898989aa9cb99999c988aaabbc9a8c99576\
    646775a867556a555688879897cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccbccc556666677788989abacccccccc9cccb876554444\
    4444444445566ccc",
    b"\
    cccccccccc8ccccccccccccccccccccc5c5bccccbbcc776865666666776cccccc899998ababaaaaaaca9abbbcccbcbc7b576\
    6577759867667a6666889899c9ccaabbcbcabccbbababbbbbaacababbbcacbcb9b89bbbbbbbcababbaaaabbbaa9accc8cccc\
    cccccccc88cccccccccccccc8cbcccccccccbcccacccccccccccccccbccc566565646677879b9abcccccc9bbbbb866554544\
    3445444445567bbb",
    b"\
    ccccccccca9ccccccccccccccccccccc397ccccc9acc854755455556568b888ca886a98aa8ba78999c988abbc9bccccbc686\
    768776b967668c666787988ccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccabccc\
    ccccccccccccccccccccccccccccccccccccccccccccccccccccccccaccc6787878aa79aa79bcccccccccccc898748464444\
    4444454545567bbb",
    b"\
    cccccccccc8ccccccccccccccccccccc4caccccaaaac775866677777779acaccc9a9aaaaa9cba9aa9ca99bcaccccccc98476\
    6466649856556a55467787accccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc\
    cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc56677787997aa8acc9bbcccccc8cccb988776655\
    4444443434455ccc",
    b"\
    cccccccccb6ccccccccccccccccccccc4c7bcbb888ab88688889aaaaa99bbcbbb88998ab98bb99997c878aababcb6bcab687\
    756776c867667b66678898bccccc766778898888789889998988987889a8989a88987a88987789b99a9978887888cccccccc\
    ccccccccccccccccccccccccccc5656677ccccc8cccccccccccccccccccc56777778989abbcccccccccccc8cbcc988665544\
    4444343445577ccc",
];
