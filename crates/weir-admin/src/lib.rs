//! weir-admin
