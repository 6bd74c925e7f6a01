package fetch

// Limits bound what one commit may cost. A zero field means its default.
type Limits struct {
	// Files is the most entries (files, symbolic links and submodules) that the
	// commit's tree may hold.
	Files int
	// Bytes is the most bytes of all files together, and also of what is
	// transferred and of what it inflates to.
	Bytes int64
	// FileBytes is the most bytes of any one file.
	FileBytes int64
}

// DefaultLimits are 10,000 files, 64 MiB in all and 16 MiB for one file. A
// tenants' repository is YAML and stays far below; the room is for the picture
// in somebody's README. How large a file may be to be rendered is the
// renderer's own, much smaller limit.
func DefaultLimits() Limits {
	return Limits{Files: 10_000, Bytes: 64 << 20, FileBytes: 16 << 20}
}
