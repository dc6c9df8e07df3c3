// Package image tests what is deployed: the image from scratch, built and run with buildah, and the steps of the
// multi-stage Dockerfile, whose base image is not there to build on.
package image
