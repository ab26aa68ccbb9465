//! weir-config
