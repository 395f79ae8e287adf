// Package manual answers: what does this command, or this key, mean? It has the commands help,
// config and completion, and it writes the pages of docs/reference.
package manual
