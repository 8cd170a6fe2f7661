# Clairon::Test::Output: the formatter of prove for files that run side by side: the output of each in one piece, and its seconds.
package Clairon::Test::Output;

use strict;
use warnings;

use parent 'TAP::Formatter::File';

sub open_test
{
    my ($self, $test, $parser) = @_;
    my $session = Clairon::Test::Output::Session->new({ name => $test, formatter => $self, parser => $parser });
    $session->header;
    return $session;
}

package Clairon::Test::Output::Session;

use strict;
use warnings;

use parent 'TAP::Formatter::File::Session';

sub close_test
{
    my ($self) = @_;
    my $parser = $self->parser;
    $self->SUPER::close_test;
    # The table of slow files is made of these lines.
    $self->formatter->_output(sprintf "# %.1f s %s\n", $parser->end_time - $parser->start_time, $self->name);
    return;
}

1;
