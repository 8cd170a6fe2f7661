# Measure: functions shared by the benches of clusters.
package Measure;

use strict;
use warnings;

use Exporter qw(import);
use PostgreSQL::Test::Utils ();
use Test::More;

our @EXPORT_OK = qw(figure median cpu users_of_shards);

sub figure { note(sprintf "bench: %-60s %s", @_); return }
sub median { my @sorted = sort { $a <=> $b } @_; return $sorted[ $#sorted / 2 ] }

# Returns the CPU time of the processes in µs since their start.
sub cpu
{
    my $ns = 0;
    $ns += (split ' ', PostgreSQL::Test::Utils::slurp_file($_))[0] for map { glob '/proc/' . $_->pid . '/task/*/schedstat' } @_;
    return $ns / 1000;
}

# Returns at least five users of each shard except shard 0. The table `owner` contains four users of each shard, without
# the first user.
sub users_of_shards
{
    my ($pg, $cluster) = @_;
    my (%users, $number);
    until (keys %users == $cluster->shards - 1 && !grep { @$_ < 5 } values %users)
    {
        my $user = 'user' . $number++;
        push @{ $users{ $cluster->shard_of($user) } }, $user;
    }
    my @owners = map { @$_[ 1 .. 4 ] } values %users;
    $pg->safe_psql('postgres', 'CREATE TABLE owner (number int PRIMARY KEY, name text); INSERT INTO owner VALUES '
          . join ', ', map { "($_, '$owners[$_]')" } 0 .. $#owners);
    return %users;
}

1;
