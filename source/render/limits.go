package render

// Limits bound what one rendering may cost. A zero field means its default.
type Limits struct {
	// Files is the most YAML and JSON files that are read.
	Files int
	// Bytes is the most bytes of those files together, and of what kustomize
	// makes of them.
	Bytes int64
	// FileBytes is the most bytes of any one of them.
	FileBytes int64
	// Objects is the most objects in the result.
	Objects int
	// Kustomized is the most objects of one kustomization with all that it takes
	// in. kustomize compares each with all others, so its time grows with their
	// square, and all other sources wait for it.
	Kustomized int
	// Nodes is the most values of one document with its aliases expanded; all
	// documents together may have 10 times as many.
	Nodes int
	// Depth is how deep folders, kustomizations and YAML may nest.
	Depth int
}

// DefaultLimits are 5,000 files, 32 MiB in all, 1 MiB for one file, 10,000
// objects, 2,000 of them by one kustomization, 100,000 values in one document
// and a depth of 64. 2,000 objects take kustomize some 5 s; without one, 10,000
// take less than that.
func DefaultLimits() Limits {
	return Limits{Files: 5_000, Bytes: 32 << 20, FileBytes: 1 << 20, Objects: 10_000, Kustomized: 2_000, Nodes: 100_000, Depth: 64}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	set(&l.Files, d.Files)
	set(&l.Bytes, d.Bytes)
	set(&l.FileBytes, d.FileBytes)
	set(&l.Objects, d.Objects)
	set(&l.Kustomized, d.Kustomized)
	set(&l.Nodes, d.Nodes)
	set(&l.Depth, d.Depth)
	return l
}

func set[N int | int64](field *N, value N) {
	if *field <= 0 {
		*field = value
	}
}
