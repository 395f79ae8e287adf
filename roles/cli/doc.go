// Package cli answers: which command did the user call? Run is the command line, and most commands have a file each.
// Packages below have the other commands (bench, doctor, language, manual, sweep, watch), the arguments of all commands
// (args), and the verdict of rlinf check.
package cli
