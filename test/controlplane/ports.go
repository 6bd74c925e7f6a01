package controlplane

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
)

// Ports are taken in blocks below the range from which kernels give out ports to clients, so that nobody's outgoing
// connection can take one while its component is being restarted.
const (
	firstPort  = 20000
	blockSize  = 10
	blockCount = 500
)

// portBlock is a block of neighbouring ports on 127.0.0.1 that no other control plane of this user takes.
type portBlock struct {
	first   int
	release func()
}

// takePorts finds a block that is neither locked by another control plane nor in use by anybody else.
func takePorts() (portBlock, error) {
	cache, err := cacheDir()
	if err != nil {
		return portBlock{}, err
	}
	for i := range blockCount {
		first := firstPort + i*blockSize
		release, err := tryLock(filepath.Join(cache, fmt.Sprintf("ports-%d.lock", first)))
		if err != nil {
			return portBlock{}, err
		}
		if release == nil {
			continue
		}
		if blockIsFree(first) {
			return portBlock{first: first, release: release}, nil
		}
		release()
	}
	return portBlock{}, errors.New("no block of free ports on 127.0.0.1")
}

func blockIsFree(first int) bool {
	for port := first; port < first+blockSize; port++ {
		listener, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}

// The places within a block.
func (p portBlock) etcdClient() int        { return p.first }
func (p portBlock) etcdPeer() int          { return p.first + 1 }
func (p portBlock) apiServer() int         { return p.first + 2 }
func (p portBlock) scheduler() int         { return p.first + 3 }
func (p portBlock) controllerManager() int { return p.first + 4 }
func (p portBlock) kwok() int              { return p.first + 5 }

// loopback is an address for a URL or a flag.
func loopback(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }
