# Clairon::Test::Output: a formatter of prove for files that run in parallel. It prints the output and the duration of
# each file when the file has ended.
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
    # tests/check.sh builds the table of slow files from these lines.
    $self->formatter->_output(sprintf "# %.1f s %s\n", $parser->end_time - $parser->start_time, $self->name);
    return;
}

1;
