# Clairon::Test::SheddableTables: tables whose notifications load shedding may drop, and tables whose notifications it
# must not drop.
package Clairon::Test::SheddableTables;

use strict;
use warnings;

use Exporter qw(import);

our @EXPORT_OK = qw(create insert names has);

# The tables and their rules: load shedding may drop `low`, then `normal`.
my @TABLES = (
    [ low    => q{'ALL', priority => 'LOW'} ],
    [ normal => q{'ALL'} ],
    [ high   => q{'ALL', priority => 'HIGH'} ],
    [ noted  => q{'ALL', type => 'NOTIFICATION', priority => 'LOW'} ],
    [ needed => q{'ALL', ack_required => true, priority => 'LOW'} ],
);
my $pg;
my $id = 0;

# Creates these tables, and additional tables of the test, in this PostgreSQL.
sub create
{
    ($pg, my @more) = @_;
    for my $table (@TABLES, @more)
    {
        $pg->safe_psql('postgres', "CREATE TABLE $table->[0] (id int PRIMARY KEY, body text);"
              . "SELECT clairon.watch('$table->[0]', $table->[1])");
    }
    return;
}

# Inserts one row with the same id into each of these tables; returns the id.
sub insert
{
    $id++;
    $pg->safe_psql('postgres', join ';', map { "INSERT INTO $_ VALUES ($id, 'x')" } @_);
    return $id;
}

# Returns the rows that a client received, sorted: `low 1 normal 1 ..`. has() returns whether the client received a row.
sub names { return join ' ', sort map { "$_->{metadata}{source} $_->{payload}{after}{id}" } $_[0]->notifications }
sub has { my ($client, $name) = @_; return grep { $_ eq $name } split / (?=[a-z])/, names($client) }

1;
