//! weir-net
