// Package dataset answers: how do folders of LeRobot become demonstrations, and demonstrations such folders? It
// translates names, types and the ends of episodes. Package internal/lerobot knows the files.
package dataset
