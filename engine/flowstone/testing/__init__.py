"""What tests of stores, engines and workflows are made with. Needs pytest; nothing else of Flowstone imports it."""
