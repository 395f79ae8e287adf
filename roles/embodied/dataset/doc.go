// Package dataset answers: what are folders of LeRobot as demonstrations, and demonstrations as such folders? It
// translates names, types and the ends of episodes. Package internal/lerobot knows the files.
package dataset
