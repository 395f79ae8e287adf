// Package manual answers: what does a command, or a key, mean? It has the commands help, config, completion and
// man, and writes the pages of docs/reference.
package manual
