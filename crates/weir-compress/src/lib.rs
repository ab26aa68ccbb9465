//! weir-compress
