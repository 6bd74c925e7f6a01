package fetch

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
)

// unpack turns a pack into objects, unless they would be larger than the limit.
// Their sizes are added up before anything is inflated into memory: two
// megabytes of pack can hold two gigabytes of zeros.
func unpack(pack []byte, l Limits, where string) (storer.EncodedObjectStorer, error) {
	if err := measure(pack, l, where); err != nil {
		return nil, err
	}
	objects := memory.NewStorage()
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(bytes.NewReader(pack)), objects)
	if err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	if _, err := parser.Parse(); err != nil {
		return nil, fmt.Errorf("reading the pack: %w", err)
	}
	return objects, nil
}

func measure(pack []byte, l Limits, where string) error {
	scanner := packfile.NewScanner(bytes.NewReader(pack))
	_, count, err := scanner.Header()
	if err != nil {
		return fmt.Errorf("reading the pack: %w", err)
	}
	var total int64
	for range count {
		header, err := scanner.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		if total += header.Length; header.Length > l.Bytes || total > l.Bytes {
			return tooManyBytes(l, where)
		}
		// Inflates to nowhere, and never past the length in the header.
		var begin prefixWriter
		if _, _, err := scanner.NextObject(&begin); err != nil {
			return fmt.Errorf("reading the pack: %w", err)
		}
		if !header.Type.IsDelta() {
			continue
		}
		// A delta of a kilobyte can make gigabytes; it says how many.
		size := targetSize(begin.Bytes())
		if total += size; size < 0 || size > l.Bytes || total > l.Bytes {
			return tooManyBytes(l, where)
		}
	}
	return nil
}

// targetSize reads the second of a delta's two leading numbers, the size of the
// object it makes; -1 if that is none.
func targetSize(delta []byte) int64 {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return -1
	}
	size, n := binary.Uvarint(delta[n:])
	if n <= 0 || size > 1<<62 {
		return -1
	}
	return int64(size)
}
