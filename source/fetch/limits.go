package fetch

// Limits bound what one commit may cost. A zero field means its default.
type Limits struct {
	// Files is the most entries (files, folders, symbolic links, submodules)
	// that the commit's tree may hold.
	Files int
	// Bytes is the most bytes of all files together, and also of what is
	// transferred and of what that inflates to.
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

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	if l.Files <= 0 {
		l.Files = d.Files
	}
	if l.Bytes <= 0 {
		l.Bytes = d.Bytes
	}
	if l.FileBytes <= 0 {
		l.FileBytes = d.FileBytes
	}
	return l
}

// maxDepth is how deep folders may nest, and maxAdvertised how many bytes of
// refs a remote may list (a ref is about 60 bytes).
const (
	maxDepth      = 100
	maxAdvertised = 64 << 20
)

func tooManyFiles(l Limits, where string) error {
	return fail(CommitTooLarge, "the commit from %s has more than %d files and folders: keep other things in another repository", where, l.Files)
}

func tooManyBytes(l Limits, where string) error {
	return fail(CommitTooLarge, "the commit from %s has more than %d MiB: keep large files in another repository", where, l.Bytes>>20)
}

func fileTooLarge(l Limits, file, where string) error {
	return fail(CommitTooLarge, "%s in the commit from %s is larger than %d MiB: keep large files in another repository", file, where, l.FileBytes>>20)
}

func tooDeep(where string) error {
	return fail(CommitTooLarge, "folders in the commit from %s nest deeper than %d", where, maxDepth)
}
