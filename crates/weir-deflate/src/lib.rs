//! weir-deflate
