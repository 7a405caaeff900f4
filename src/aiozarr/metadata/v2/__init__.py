"""What documents of format 2 say: members, types, fill values and codecs, to the model and back."""
