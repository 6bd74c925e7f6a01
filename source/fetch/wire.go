package fetch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// link carries Git's pack protocol, version 0, over http or ssh. An error that
// it can name is an *Error already.
type link interface {
	// advertise asks for the refs and returns the answer.
	advertise(context.Context) (io.Reader, error)
	// upload sends a request for objects and returns the answer.
	upload(context.Context, []byte) (io.Reader, error)
	// explain gives a better reason for an answer that did not make sense, or
	// returns err.
	explain(err error) error
	// close ends the connection and with it all reads.
	close()
}

// wire is a remote that is reached through a link. go-git's own transports are
// not used: theirs for ssh cannot be cancelled, reads the user's ssh
// configuration and holds its settings in global variables.
type wire struct {
	link
	address address
	adv     *packp.AdvRefs
}

func (w *wire) where() string { return w.address.shown }

func (w *wire) branches(ctx context.Context) (branches, error) {
	r, err := w.advertise(ctx)
	if err != nil {
		return branches{}, err
	}
	// Kept for a look at what go-git's decoder stumbled over.
	var seen prefixWriter
	adv := packp.NewAdvRefs()
	err = adv.Decode(io.TeeReader(io.LimitReader(r, maxAdvertised), &seen))
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return branches{}, nil
	case strings.Contains(seen.String(), string(capability.ObjectFormat)+"=sha256"):
		return branches{}, unsupportedFormat(w.where())
	case err != nil:
		return branches{}, w.explain(err)
	}
	w.adv = adv
	return w.list(), nil
}

func unsupportedFormat(where string) error {
	return fail(UnsupportedObjectFormat, "%s is a SHA-256 repository, which is not supported: create it with --object-format=sha1", where)
}

func (w *wire) list() branches {
	var b branches
	for name, hash := range w.adv.References {
		b.add(name, hash)
	}
	for _, pair := range w.adv.Capabilities.Get(capability.SymRef) {
		// No name of a ref has a colon in it.
		if target, ok := strings.CutPrefix(pair, "HEAD:"+branchPrefix); ok {
			b.head = target
		}
	}
	return b
}

func (w *wire) objects(ctx context.Context, hash plumbing.Hash, l Limits) (storer.EncodedObjectStorer, error) {
	request, err := w.request(hash)
	if err != nil {
		return nil, err
	}
	body, err := encode(request)
	if err != nil {
		return nil, err
	}
	answer, err := w.upload(ctx, body)
	if err != nil {
		return nil, err
	}
	// The pack's limit, and as much again for what is around it.
	pack, err := readPack(io.LimitReader(answer, 2*l.Bytes+maxPrefix), request, l, w.where())
	if err != nil {
		return nil, w.explain(err)
	}
	return unpack(pack, l, w.where())
}

// request asks for one commit and all below it. The hash was advertised a
// moment ago, so any server grants it.
func (w *wire) request(hash plumbing.Hash) (*packp.UploadPackRequest, error) {
	has := w.adv.Capabilities
	request := packp.NewUploadPackRequest()
	request.Wants = []plumbing.Hash{hash}
	set := []capability.Capability{capability.OFSDelta}
	switch {
	case azure(w.address):
		// Azure DevOps refuses who cannot do multi_ack, and its shallow answers
		// are not to be relied on: without haves multi_ack changes nothing in the
		// answer, so the whole branch is asked for.
		set = append(set, capability.MultiACK)
	case has.Supports(capability.Shallow):
		set = append(set, capability.Shallow)
		request.Depth = packp.DepthCommits(1)
	}
	if has.Supports(capability.Sideband64k) {
		set = append(set, capability.Sideband64k, capability.NoProgress)
	}
	for _, c := range set {
		if has.Supports(c) {
			if err := request.Capabilities.Set(c); err != nil {
				return nil, err
			}
		}
	}
	if err := request.Capabilities.Set(capability.Agent, "reservation-operator"); err != nil {
		return nil, err
	}
	return request, request.Validate()
}

func azure(a address) bool {
	host := a.host
	if a.base != nil {
		host = a.base.Hostname()
	}
	host = strings.ToLower(host)
	return host == "dev.azure.com" || strings.HasSuffix(host, ".dev.azure.com") || strings.HasSuffix(host, ".visualstudio.com")
}

func encode(request *packp.UploadPackRequest) ([]byte, error) {
	var b bytes.Buffer
	if err := request.UploadRequest.Encode(&b); err != nil {
		return nil, err
	}
	err := pktline.NewEncoder(&b).EncodeString("done\n")
	return b.Bytes(), err
}

// readPack reads the whole pack into memory, if it is within the limit.
func readPack(r io.Reader, request *packp.UploadPackRequest, l Limits, where string) ([]byte, error) {
	response := packp.NewUploadPackResponse(request)
	if err := response.Decode(io.NopCloser(r)); err != nil {
		return nil, err
	}
	var content io.Reader = response
	if request.Capabilities.Supports(capability.Sideband64k) {
		content = sideband.NewDemuxer(sideband.Sideband64k, response)
	}
	pack, err := io.ReadAll(io.LimitReader(content, l.Bytes+1))
	if err != nil {
		return nil, err
	}
	if int64(len(pack)) > l.Bytes {
		return nil, tooManyBytes(l, where)
	}
	return pack, nil
}

// prefixWriter keeps the beginning of what is written to it.
type prefixWriter struct{ bytes.Buffer }

const maxPrefix = 8 << 10

func (p *prefixWriter) Write(b []byte) (int, error) {
	if room := maxPrefix - p.Len(); room > 0 {
		p.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
