//! Placeholder of a family that follows.

use crate::registry::Converter;

pub(crate) static CONVERTERS: &[Converter] = &[];
