"""AdmissionReview in, verdict out: places model pods when they are created, or says why they have no place."""
