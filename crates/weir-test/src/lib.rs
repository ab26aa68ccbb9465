//! weir-test
