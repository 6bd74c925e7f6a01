// Package serve runs the operator's webhooks: their certificate, their server, and their registration.
//
// In come an Endpoint (where the API server finds the webhooks), the namespaces with accepted bindings, and the Secret
// in which a library makes and rotates the CA and the certificate; out go the two webhook configurations, whose names
// contain "reservation", and a server whose certificate changes without a restart.
//
// What it never does: it decides nothing about pods, writes no private key to a disk or a log, and never deletes a
// configuration to make it anew.
package serve
