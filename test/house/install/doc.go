// Package install holds the tests of what config/ installs: they apply it to a real API server, as a platform engineer
// would, and ask that server.
//
// In comes the folder config/; out go failed tests. There is no code here, and no operator runs: what it does once it is
// installed is tested elsewhere.
//
//	go test ./test/house/install
package install
