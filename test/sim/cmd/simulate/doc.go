// Command simulate plays random histories with the operator's reconcilers and checks the laws: make simulate.
package main
