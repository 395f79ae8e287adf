// Package video writes pictures of environments: several side by side on a Sheet, a sheet as PNG,
// and sheets one after another as a film, Motion JPEG in an AVI file, which players and editors
// read without further ado.
//
// Pictures are RGB, [height, width, 3] bytes from the top row down.
package video
