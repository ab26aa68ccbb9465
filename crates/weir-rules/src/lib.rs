//! weir-rules
