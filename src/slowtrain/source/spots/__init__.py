"""What ``slowtrain lint`` sees in a file, without running it: in folders by the family of the cause."""
