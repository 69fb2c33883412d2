"""Forms: what people type, as texts, and the bodies that the REST door would get for it.

Nothing is judged here: a text becomes the value it stands for where it can, and stays a text where it cannot; what is
wrong with it is then said by the same shapes (`wire`) and rules as over REST, and put beside the field that caused it.
A field that was left empty says nothing, so that defaults stay those of the rules.
"""
