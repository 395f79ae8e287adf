// Package nn holds what policies are built of: layers with hand-written backward passes, kernels, initialisation, parameters.
package nn
