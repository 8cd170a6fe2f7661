# Clairon::Test::SheddableTables: tables of which a relay that is short of something may leave out some and not others.
package Clairon::Test::SheddableTables;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(create insert names has);

# The tables by what their rules say: low and normal may be left out, in that order.
my @KINDS = (
    [ low    => q{'ALL', priority => 'LOW'} ],
    [ normal => q{'ALL'} ],
    [ high   => q{'ALL', priority => 'HIGH'} ],
    [ noted  => q{'ALL', type => 'NOTIFICATION', priority => 'LOW'} ],
    [ needed => q{'ALL', ack_required => true, priority => 'LOW'} ],
);
my $pg;
my $id = 0;

# Makes them, and others of the test's own, in this PostgreSQL.
sub create
{
    ($pg, my @more) = @_;
    for my $kind (@KINDS, @more)
    {
        $pg->safe_psql('postgres', "CREATE TABLE $kind->[0] (id int PRIMARY KEY, body text);"
              . "SELECT clairon.watch('$kind->[0]', $kind->[1])");
    }
    return;
}

# One row into each of these tables, with the same id, which is returned.
sub insert
{
    $id++;
    $pg->safe_psql('postgres', join ';', map { "INSERT INTO $_ VALUES ($id, 'x')" } @_);
    return $id;
}

# What a client was shown: `low 1 normal 1 ..`, sorted; whether `low 1` is among it.
sub names { return join ' ', sort map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $_[0]->notifications }
sub has { my ($client, $name) = @_; return grep { $_ eq $name } split / (?=[a-z])/, names($client) }

1;
